"""From records and a tuned config to the page as plain data: every section, in order."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mi300bench.schema.config import TunedConfig
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement

from mi300bench_reports import header
from mi300bench_reports.elements import Page, Section
from mi300bench_reports.machines import by_machine
from mi300bench_reports.sections import (
    claims,
    collectives,
    comparison,
    decisions,
    fresh_runs,
    memory,
    overlap,
    parts,
    plans,
    products,
    provenance,
    roofline,
    timeline,
    training,
)


def build(
    records: Sequence[Measurement], tuned: TunedConfig | None, gemms: Sequence[Gemm] = ()
) -> Page:
    """Return the page of `records`. `gemms` are the matrix products of the tuned model."""
    ordered = tuple(sorted(records, key=lambda record: (record.run, record.started_at, record.id)))
    sections = [
        *_choice_sections(ordered, tuned),
        comparison.nodes(ordered),
        comparison.changes(ordered),
        plans.plans(ordered),
        *_machine_sections(ordered, gemms),
        training.scaling(ordered),
        training.runs(ordered),
        claims.own_figures(ordered),
        provenance.doubts(ordered),
        provenance.failures(ordered),
        provenance.conditions(ordered),
        provenance.reproduce(ordered, tuned),
        claims.published(),
        provenance.all_points(ordered),
    ]
    return Page(
        machine=header.machines(ordered),
        warning=header.warning(ordered),
        imported=header.imported_files(ordered),
        headline=header.headline(tuned) if tuned is not None else None,
        sections=tuple(section for section in sections if section is not None),
    )


def _choice_sections(
    records: Sequence[Measurement], tuned: TunedConfig | None
) -> Iterator[Section | None]:
    """Yield the sections about the tuned config, drawn from the very records that it names."""
    if tuned is None:
        return
    yield decisions.decisions(tuned, records)
    yield fresh_runs.fresh_runs(tuned)
    yield timeline.timeline(tuned, records)


def _machine_sections(records: Sequence[Measurement], gemms: Sequence[Gemm]) -> Iterator[Section]:
    """Yield the sections about each machine; those of the second and later ones are numbered."""
    machines = by_machine(record for record in records if not record.probe.endswith(".plan"))
    for number, (name, own) in enumerate(machines.items()):
        sections = (
            memory.memory(own),
            roofline.roofline(own),
            # A fit takes seconds, so only a page of one machine has one.
            products.products(own, gemms, has_fit=not name),
            products.product_map(own, gemms),
            *collectives.collectives(own),
            parts.ranks(own),
            parts.pairs(own),
            overlap.overlap(own),
        )
        for section in sections:
            if section is not None:
                anchor = f"{section.anchor}-{number}" if number else section.anchor
                title = f"{section.title}: {name}" if name else section.title
                yield replace(section, anchor=anchor, title=title)
