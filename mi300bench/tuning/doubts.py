"""The doubts of records, as sentences for a choice."""

from collections.abc import Iterable

from mi300bench.schema.record import Measurement


def doubts_of(records: Iterable[Measurement], identities: Iterable[str]) -> tuple[str, ...]:
    """Return the doubts of the records with these ids: one sentence for each kind of doubt.

    The sentence is that of the first record, with the number of records that share the kind.
    """
    wanted = set(identities)
    by_kind: dict[str, list[str]] = {}
    for record in records:
        if record.id in wanted:
            for doubt in record.doubts:
                by_kind.setdefault(doubt.kind, []).append(str(doubt))
    return tuple(
        sentences[0]
        + (
            f" ({len(sentences)} of {len(wanted)} records have this doubt or a similar one.)"
            if len(sentences) > 1
            else ""
        )
        for sentences in by_kind.values()
    )
