"""The choices of the tuned config, with the records behind each."""

from collections.abc import Mapping, Sequence

from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.record import Measurement

from mi300bench_reports import as_text
from mi300bench_reports.elements import Detail, Section, Table

# At most this many samples of a record are printed.
MOST_SAMPLES = 12


def decisions(tuned: TunedConfig, records: Sequence[Measurement]) -> Section:
    """Return every choice: value, default and reason; folded: alternatives, doubts, samples."""
    by_id = {record.id: record for record in records}
    rows = tuple(
        (
            key,
            str(choice.value),
            "same" if choice.value == choice.default else str(choice.default),
            choice.why,
        )
        for key, choice in tuned.choices.items()
    )
    details = [_detail(key, choice, by_id) for key, choice in tuned.choices.items()]
    if tuned.doubts:
        details.insert(0, Detail(summary=f"Notes: {len(tuned.doubts)}", sentences=tuned.doubts))
    return Section(
        anchor="decisions",
        title="What to set and why",
        table=Table(columns=("setting", "value", "default", "why"), rows=rows),
        details=tuple(details),
    )


def _detail(key: str, choice: Choice, by_id: Mapping[str, Measurement]) -> Detail:
    alternatives = [
        (
            "alternative",
            str(alternative.value),
            as_text.seconds_range(alternative.predicted_s),
            ", ".join(map(str, alternative.same_as)),
        )
        for alternative in choice.alternatives
    ]
    records = [_record_row(identity, by_id.get(identity)) for identity in choice.evidence]
    return Detail(
        summary=(
            f"{key}: {len(choice.alternatives)} alternatives, {len(choice.evidence)} records, "
            f"{len(choice.doubts)} doubts"
        ),
        sentences=tuple(f"Doubt: {doubt}" for doubt in choice.doubts),
        table=Table(
            columns=("kind", "value or record", "seconds", "equivalent values, or origin"),
            rows=(*alternatives, *records),
        ),
    )


def _record_row(identity: str, record: Measurement | None) -> tuple[str, str, str, str]:
    if record is None:
        return "record", identity, "not in this store", ""
    samples = " ".join(f"{value:.4g}" for value in record.samples[:MOST_SAMPLES])
    rest = len(record.samples) - MOST_SAMPLES
    return (
        "record",
        f"{identity} {record.probe} {as_text.params(record)}",
        f"{samples} s" + (f" and {rest} more" if rest > 0 else ""),
        str(record.origin),
    )
