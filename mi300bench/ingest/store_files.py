"""Another tool's output into the store: every row a record of origin `imported` that names tool and file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mi300bench.errors import Mi300benchError, NodeError, PlanError, RecordError
from mi300bench.hw.facts import find_device
from mi300bench.ingest import formats
from mi300bench.ingest.reading import LogReading, Row, printable
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement, Origin, Outcome, Scalar, World, short_hash
from mi300bench.store.reader import read_run
from mi300bench.store.writer import RunWriter

METHOD = 1
LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A file, what was read of it, and the records that came of it (none where it was only checked)."""

    path: Path
    reading: LogReading
    records: tuple[Measurement, ...] = ()
    earlier: str = ""  # the run that had the same rows already


# What names of devices, or else tools, say of the maker where no facts do.
MAKERS = {
    "rocm": ("AMD INSTINCT", "RADEON", "GFX9"),
    "cuda": ("NVIDIA", "GEFORCE", "TESLA", "QUADRO", "RTX"),
}
TOOLS_OF = {"hipblaslt-bench": "rocm", "TransferBench": "rocm", "rocm-smi": "rocm"}


def kind_of(device: str, tool: str) -> str:
    """Return ``rocm``, ``cuda`` or ``cpu``: what a device's name, or else the tool, says it is."""
    facts = find_device(device) if device else None
    if facts is not None:
        return "rocm" if facts.arch.startswith("gfx") else "cuda"
    named = next(
        (kind for kind, words in MAKERS.items() if any(word in device.upper() for word in words)),
        "",
    )
    return named or TOOLS_OF.get(tool, "cpu")


def read_file(path: Path, *, kind: str) -> LogReading:
    """Return what is in a file, whatever its encoding."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RecordError(f"{path} is larger than 1 GiB", hint="split it")
        data = path.read_bytes()
    except FileNotFoundError as cause:
        raise PlanError(f"{path} does not exist", hint="a file that another tool wrote") from cause
    except OSError as cause:
        raise NodeError(
            f"{path} cannot be read: {cause.strerror}", hint="a readable file"
        ) from cause
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return formats.read(data.decode(encoding, errors="replace"), kind=kind, name=str(path))


def record_of(
    row: Row, reading: LogReading, *, path: Path, run: str, settings: Settings, device: str, began: str, place: int
) -> Measurement:  # fmt: skip
    """Return the record of a row. `device` names the machine and `began` the time where the text does not."""
    name = device or printable(reading.device)
    params: dict[str, Scalar] = {
        printable(key): printable(v) if isinstance(v, str) else v for key, v in row.params.items()
    }
    told = {key: printable(v) if isinstance(v, str) else v for key, v in reading.conditions.items()}
    facts = find_device(name) if name else None
    world = World(device=kind_of(name, reading.tool), ranks=max(1, row.ranks), threads=0)
    outcome = Outcome.SKIPPED if row.no_speed else Outcome.WRONG_ANSWER if row.wrong else Outcome.OK
    point = short_hash([row.probe, METHOD, params, world.device, world.ranks, reading.tool])
    return Measurement(
        probe=row.probe,
        method=METHOD,
        params=params,
        outcome=outcome,
        reason=row.no_speed or row.wrong,
        id=short_hash([run, str(path), place, row.line]),
        point=point,
        run=run,
        world=world,
        samples=row.seconds,
        work=row.work,
        series=row.stated,
        conditions={
            "framework": reading.tool,
            "device_arch": facts.arch if facts else "",
            reading.counts: row.line,
            **told,
        },
        node=settings.node,
        device=facts.name if facts else name,
        started_at=began
        or reading.began,  # not when it was imported: histories are of when things ran
        origin=Origin.IMPORTED,
        source=f"{reading.tool}: {path.name}",
    )


def _earlier(settings: Settings, digest: str) -> tuple[str, list[Path]]:
    """Return the finished run that has the same bytes (empty where there is none), and those that were cut short."""
    finished, cut = "", []
    for path in sorted((settings.store / settings.node).glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            is_same = f'"{digest}"' in lines.readline()
        if is_same and read_run(path).finished:
            finished = path.stem
        elif is_same:
            cut.append(path)
    return finished, cut


def _store(
    path: Path, reading: LogReading, settings: Settings, *, kind: str, device: str, began: str
) -> Imported:
    """Write a file's rows as a run of their own, unless a finished run has them already."""
    if not reading.rows:
        raise RecordError(
            f"{path}: nothing in it could be read as {reading.tool}",
            hint=f"mi300bench import --check {path}",
        )
    told = "\0".join((kind, device, began)).encode()
    digest = hashlib.blake2b(path.read_bytes() + told, digest_size=8).hexdigest()
    earlier, cut = _earlier(settings, digest)
    if earlier:
        return Imported(path=path, reading=reading, earlier=earlier)
    question = f"What does {path.name} say?"
    header = {
        "plan": "",
        "question": question,
        "imported": digest,
        "points": len(reading.rows),
        "passes": 1,
    }
    with RunWriter(settings.store, node=settings.node, header=header) as writer:
        records = tuple(
            record_of(
                row,
                reading,
                path=path,
                run=writer.run_id,
                settings=settings,
                device=device,
                began=began,
                place=place,
            )
            for place, row in enumerate(reading.rows)
        )
        for record in records:
            writer.write(record)
        writer.finish()
    for half in cut:  # the same rows, from an import that was interrupted
        half.unlink()
    return Imported(path=path, reading=reading, records=records)


def import_files(
    paths: Sequence[Path],
    settings: Settings,
    *,
    kind: str,
    device: str,
    is_check: bool,
    began: str = "",
) -> tuple[Imported, ...]:
    """Read every file, and write its rows into the store unless they are only checked. The same file again adds nothing.

    A file that cannot be read does not keep the others out; the first such error is raised in the end.
    """
    done: list[Imported] = []
    failed: list[Mi300benchError] = []
    for path in paths:
        try:
            reading = read_file(path, kind=kind)
            if is_check:
                done.append(Imported(path=path, reading=reading))
            else:
                done.append(_store(path, reading, settings, kind=kind, device=device, began=began))
        except (PlanError, RecordError) as cause:
            failed.append(cause)
            if len(paths) > 1:  # the only one is told when it is raised
                settings.say(f"{cause}")
    if failed and len(paths) > 1:
        settings.say(f"{len(failed)} of {len(paths)} files were not read, {len(done)} were")
    if failed:
        raise failed[0]
    return tuple(done)
