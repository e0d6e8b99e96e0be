"""What a step would hold and move on each mesh, compiled without its weights: the section of the plans."""

from collections.abc import Sequence

from mi300bench.hw.facts import find_device
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.units import format_bytes

from mi300bench_reports import figure
from mi300bench_reports.page import Section, Table

DEVICE = "MI300X"
PARTS = ("weights", "adapters", "optimizer", "temp")
MOST_BARS = 24


def _value(record: Measurement, name: str) -> float:
    return float(record.series[name][0])


def newest(records: Sequence[Measurement]) -> list[Measurement]:
    """Return the newest plan of each point, those that need least first."""
    found: dict[str, Measurement] = {}
    for record in records:
        if record.probe.endswith(".plan") and record.outcome is Outcome.OK:
            found[record.point] = record
    return sorted(
        found.values(), key=lambda record: (str(record.params["preset"]), _value(record, "bound"))
    )


def plans(records: Sequence[Measurement]) -> Section | None:
    """Return bytes of a device by part on each mesh against what an MI300X has, and bytes on the wire beside the closed forms."""
    found = newest(records)
    if not found:
        return None
    facts = find_device(DEVICE)
    limit = facts.facts["memory_bytes"].value if facts else 0.0
    rows, keys = [], []
    for record in found:
        p, bound = record.params, _value(record, "bound")
        wire, closed = (
            sum(float(v) for v in record.series[name])
            for name in ("received_bytes", "closed_form_bytes")
        )
        step = f"{p['data.batch']} x {p['data.seq_len']}" + (
            f" in {p['data.accumulate']}" if p["data.accumulate"] != 1 else ""
        )
        fits = (
            "yes" if bound <= limit else "no" if _value(record, "arguments") > limit else "perhaps"
        )
        named = str(p["preset"]), str(p["mesh"]), step, str(p["compute.remat"])
        rows.append(
            (
                *named,
                format_bytes(_value(record, "arguments")),
                format_bytes(bound),
                fits,
                format_bytes(wire),
                format_bytes(closed),
                record.id,
            )
        )
        keys.append((*named, _value(record, "arguments"), bound, fits, wire, closed, record.id))
    shown = found[:MOST_BARS]
    labels = [
        f"{r.params['preset']} {r.params['mesh']} {r.params['compute.remat']} {r.params['data.seq_len']}"
        for r in shown
    ]
    columns = (
        "model",
        "dp,fsdp,mp",
        "step",
        "remat",
        "arguments",
        "bound",
        f"fits {DEVICE}",
        "on the wire",
        "closed form",
        "record",
    )
    return Section(
        anchor="plans",
        title="What a step would hold and move",
        sentences=(
            "Compiled for virtual devices without a weight; bytes of one device and step. Arguments (weights, adapters, optimizer) "
            "and bytes on the wire are exact; the bound has the CPU compiler's temporary bytes, so what fits by it fits, and what "
            "does not by it alone is 'perhaps'.",
        ),
        chart=figure.stacked(
            labels,
            [(name, [_value(record, name) / 1e9 for record in shown]) for name in PARTS],
            limit=limit / 1e9,
            x_label=f"GB a device; dotted: what an {DEVICE} has",
            alt="Bytes of a device by part on each mesh",
        ),
        table=Table(columns=columns, rows=tuple(rows), keys=tuple(keys)),
        evidence=tuple(record.id for record in found),
    )
