"""Another tool's output into the store: every row a record of origin `imported` that names tool and file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mi300bench.errors import NodeError, PlanError, RecordError
from mi300bench.flow.settings import Settings
from mi300bench.hw.facts import find_device
from mi300bench.importers import formats
from mi300bench.importers.reading import Reading, Row
from mi300bench.schema.record import Measurement, Origin, Outcome, World, short_hash
from mi300bench.store.writer import RunWriter

METHOD = 1
LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A file, what was read of it, and the records that came of it (none where it was only checked)."""

    path: Path
    reading: Reading
    records: tuple[Measurement, ...] = ()


def read_file(path: Path, *, kind: str) -> Reading:
    """Return what is in a file, whatever its encoding."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RecordError(f"{path} is larger than 1 GiB", hint="split it")
        data = path.read_bytes()
    except FileNotFoundError as cause:
        raise PlanError(f"{path} does not exist", hint="a file that another tool wrote") from cause
    except OSError as cause:
        raise NodeError(f"{path} cannot be read: {cause.strerror}", hint="a readable file") from cause
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return formats.read(data.decode(encoding, errors="replace"), kind=kind, name=str(path))


def record_of(row: Row, reading: Reading, *, path: Path, run: str, settings: Settings, device: str, place: int) -> Measurement:
    """Return the record of a row. `device` names the machine where the text does not."""
    name = device or reading.device
    facts = find_device(name) if name else None
    kind = "rocm" if facts and facts.arch.startswith("gfx") else "cuda" if facts else "cpu"
    world = World(device=kind, ranks=max(1, row.ranks), threads=0)
    outcome = Outcome.SKIPPED if row.no_speed else Outcome.WRONG_ANSWER if row.wrong else Outcome.OK
    point = short_hash([row.probe, METHOD, dict(row.params), world.device, world.ranks, reading.tool])
    return Measurement(
        probe=row.probe,
        method=METHOD,
        params=row.params,
        outcome=outcome,
        reason=row.no_speed or row.wrong,
        id=short_hash([run, str(path), place, row.line]),
        point=point,
        run=run,
        world=world,
        samples=row.seconds,
        work=row.work,
        series=row.stated,
        conditions={"framework": reading.tool, "device_arch": facts.arch if facts else "", "line": row.line, **reading.conditions},
        node=settings.node,
        device=facts.name if facts else name,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        origin=Origin.IMPORTED,
        source=f"{reading.tool}: {path.name}",
    )


def _earlier(settings: Settings, digest: str) -> str:
    """Return the run that has the same bytes, empty where there is none."""
    for path in sorted((settings.store / settings.node).glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            if f'"{digest}"' in lines.readline():
                return path.stem
    return ""


def import_files(paths: Sequence[Path], settings: Settings, *, kind: str, device: str, is_check: bool) -> tuple[Imported, ...]:
    """Read every file, and write its rows into the store unless they are only checked. The same file again adds nothing."""
    readings = [(path, read_file(path, kind=kind)) for path in paths]
    if is_check:
        return tuple(Imported(path=path, reading=reading) for path, reading in readings)
    done = []
    for path, reading in readings:
        if not reading.rows:
            raise RecordError(f"{path}: nothing in it could be read as {reading.tool}", hint=f"mi300bench import --check {path}")
        digest = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
        if run := _earlier(settings, digest):
            settings.say(f"{path} was imported before, as {run}: nothing is added")
            done.append(Imported(path=path, reading=reading))
            continue
        question = f"What does {path.name} say?"
        header = {"plan": "", "question": question, "imported": digest, "points": len(reading.rows), "passes": 1}
        with RunWriter(settings.store, node=settings.node, header=header) as writer:
            records = tuple(
                record_of(row, reading, path=path, run=writer.run_id, settings=settings, device=device, place=place)
                for place, row in enumerate(reading.rows)
            )
            for record in records:
                writer.write(record)
            writer.finish()
        done.append(Imported(path=path, reading=reading, records=records))
    return tuple(done)
