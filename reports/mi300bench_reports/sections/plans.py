"""What a step holds and communicates on each mesh, by plans that were compiled without weights."""

from collections.abc import Sequence

from mi300bench.hw.facts import find_device
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.newest import runs_by_point
from mi300bench.units import format_bytes

from mi300bench_reports.charts import bars
from mi300bench_reports.elements import Section, Table

# The memory of this device is the limit.
DEVICE = "MI300X"
PARTS = ("weights", "adapters", "optimizer", "temp")
MOST_BARS = 24
COLUMNS = (
    "model",
    "dp,fsdp,mp",
    "step",
    "remat",
    "arguments",
    "upper bound",
    f"fits {DEVICE}",
    "received",
    "closed form",
    "record",
)


def plans(records: Sequence[Measurement]) -> Section | None:
    """Return bytes of a device by part on each mesh, and communicated bytes."""
    newest = _newest_plans(records)
    if not newest:
        return None
    device = find_device(DEVICE)
    limit = device.facts["memory_bytes"].value if device else 0.0
    shown = newest[:MOST_BARS]
    labels = [
        " ".join(
            str(r.params[name]) for name in ("preset", "mesh", "compute.remat", "data.seq_len")
        )
        for r in shown
    ]
    return Section(
        anchor="plans",
        title="Memory and communication by mesh",
        sentences=(
            "Steps compiled for virtual devices, without weights. Bytes are of one device and one "
            "step. Arguments (weights, adapters, optimizer) and received bytes are exact; 'closed "
            "form' is what formulas give for the received bytes. The upper bound includes the "
            "temporary bytes of the CPU compiler. 'perhaps': the arguments fit, the upper bound "
            "does not.",
        ),
        chart=bars.stacked(
            labels,
            [(name, [_value(record, name) / 1e9 for record in shown]) for name in PARTS],
            limit=limit / 1e9,
            x_label=f"GB per device; dotted: memory of an {DEVICE}",
            alt="Bytes per device by part on each mesh",
        ),
        table=_table(newest, limit),
        evidence=tuple(record.id for record in newest),
    )


def _newest_plans(records: Sequence[Measurement]) -> list[Measurement]:
    """Return the newest plan of each point, whichever machine compiled it, by model and bound."""
    compiled = [r for r in records if r.probe.endswith(".plan") and r.outcome is Outcome.OK]
    newest = [runs[-1][-1] for runs in runs_by_point(compiled, lambda r: r.point).values()]
    return sorted(newest, key=lambda r: (str(r.params["preset"]), _value(r, "bound")))


def _value(record: Measurement, name: str) -> float:
    return float(record.series[name][0])


def _table(plans: Sequence[Measurement], limit: float) -> Table:
    rows, keys = [], []
    for record in plans:
        params = record.params
        arguments, bound = _value(record, "arguments"), _value(record, "bound")
        wire, closed = (
            sum(float(value) for value in record.series[name])
            for name in ("received_bytes", "closed_form_bytes")
        )
        step = f"{params['data.batch']} x {params['data.seq_len']}"
        if params["data.accumulate"] != 1:
            step += f" in {params['data.accumulate']}"
        fits = "yes" if bound <= limit else "no" if arguments > limit else "perhaps"
        labels = str(params["preset"]), str(params["mesh"]), step, str(params["compute.remat"])
        rows.append(
            (
                *labels,
                format_bytes(arguments),
                format_bytes(bound),
                fits,
                format_bytes(wire),
                format_bytes(closed),
                record.id,
            )
        )
        keys.append((*labels, arguments, bound, fits, wire, closed, record.id))
    return Table(columns=COLUMNS, rows=tuple(rows), keys=tuple(keys))
