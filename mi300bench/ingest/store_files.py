"""Files of other tools into the store: each row a record of origin `imported`, with its source."""

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
    """A file, what was read in it, and its records (none if the file was only checked).

    `earlier` is the run that already has the same rows; empty if there is none.
    """

    path: Path
    reading: LogReading
    records: tuple[Measurement, ...] = ()
    earlier: str = ""


# The maker of a device that we have no facts about, by words in its name, or else by the tool.
MAKERS = {
    "rocm": ("AMD INSTINCT", "RADEON", "GFX9"),
    "cuda": ("NVIDIA", "GEFORCE", "TESLA", "QUADRO", "RTX"),
}
TOOLS_OF = {"hipblaslt-bench": "rocm", "TransferBench": "rocm", "rocm-smi": "rocm"}


def kind_of(device: str, tool: str) -> str:
    """Return ``rocm``, ``cuda`` or ``cpu``, by the name of the device, or else by the tool."""
    facts = find_device(device) if device else None
    if facts is not None:
        return "rocm" if facts.arch.startswith("gfx") else "cuda"
    named = next(
        (kind for kind, words in MAKERS.items() if any(word in device.upper() for word in words)),
        "",
    )
    return named or TOOLS_OF.get(tool, "cpu")


def read_file(path: Path, *, kind: str) -> LogReading:
    """Return what is in a file, in UTF-8 or UTF-16."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RecordError(f"{path} is larger than 1 GiB", hint="split the file")
        data = path.read_bytes()
    except FileNotFoundError as cause:
        raise PlanError(
            f"{path} does not exist", hint="give a file that another tool wrote"
        ) from cause
    except OSError as cause:
        raise NodeError(
            f"{path} cannot be read: {cause.strerror}", hint="give a readable file"
        ) from cause
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return formats.read(data.decode(encoding, errors="replace"), kind=kind, name=str(path))


def record_of(
    row: Row,
    reading: LogReading,
    *,
    path: Path,
    run: str,
    settings: Settings,
    device: str,
    began: str,
    place: int,
) -> Measurement:
    """Return the record of a row; `device` and `began`, if given, replace those of the text."""
    name = device or printable(reading.device)
    params: dict[str, Scalar] = {
        printable(key): printable(v) if isinstance(v, str) else v for key, v in row.params.items()
    }
    conditions: dict[str, Scalar] = {
        key: printable(v) if isinstance(v, str) else v for key, v in reading.conditions.items()
    }
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
            **conditions,
        },
        node=settings.node,
        device=facts.name if facts else name,
        # The date of the run, not of its import: histories are in the order of the runs.
        started_at=began or reading.began,
        origin=Origin.IMPORTED,
        source=f"{reading.tool}: {path.name}",
    )


def _earlier(settings: Settings, digest: str) -> tuple[str, list[Path]]:
    """Return the finished run of the same bytes (empty if none), and the unfinished ones."""
    finished, unfinished = "", []
    for path in sorted((settings.store / settings.node).glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            is_same = f'"{digest}"' in lines.readline()
        if is_same and read_run(path).finished:
            finished = path.stem
        elif is_same:
            unfinished.append(path)
    return finished, unfinished


def _store(
    path: Path, reading: LogReading, settings: Settings, *, kind: str, device: str, began: str
) -> Imported:
    """Write the rows of a file as a run of their own, unless a finished run has them already."""
    if not reading.rows:
        raise RecordError(
            f"{path}: no row could be read as output of {reading.tool}",
            hint=f"see the reasons: mi300bench import --check {path}",
        )
    options = "\0".join((kind, device, began)).encode()
    digest = hashlib.blake2b(path.read_bytes() + options, digest_size=8).hexdigest()
    earlier, unfinished = _earlier(settings, digest)
    if earlier:
        return Imported(path=path, reading=reading, earlier=earlier)
    question = f"What does {path.name} contain?"
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
    for run in unfinished:  # the same rows, from an import that was interrupted
        run.unlink()
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
    """Read every file and, unless `is_check`, write its rows into the store.

    A file that is in the store already adds nothing. A file that cannot be read does not stop the
    others; the first error is raised at the end.
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
            if len(paths) > 1:  # the error of a single file is only raised
                settings.say(f"{cause}")
    if failed and len(paths) > 1:
        settings.say(f"{len(done)} of {len(paths)} files were read, {len(failed)} were not")
    if failed:
        raise failed[0]
    return tuple(done)
