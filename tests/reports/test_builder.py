from dataclasses import replace

from mi300bench.schema.record import short_hash

from mi300bench_reports.builder import build


def test_every_section_is_there_in_order(records, config) -> None:
    page = build(records, config)
    assert [section.anchor for section in page.sections] == [
        "decisions",
        "against",
        "timeline",
        "memory",
        "products",
        "collectives-2",
        "overlap",
        "training",
        "doubts",
        "failures",
        "conditions",
        "reproduce",
        "claims",
        "points",
    ]
    charts = {section.anchor for section in page.sections if section.chart}
    assert charts == {"timeline", "against", "memory", "products", "collectives-2", "training"}


def test_without_a_config_there_is_no_headline_and_no_choice(records) -> None:
    page = build(records, None)
    assert page.headline is None
    assert page.sections[0].anchor == "memory"


def test_the_order_of_the_records_does_not_matter(records, config) -> None:
    assert build(records, config) == build(list(reversed(records)), config)


def test_each_machine_has_sections_of_its_own(records) -> None:
    other = [
        replace(record, node="n2", device="another CPU", id=short_hash([record.id]))
        for record in records
    ]
    page = build([*records, *other], None)
    titles = {section.anchor: section.title for section in page.sections}
    assert titles["memory"].endswith(": n1 a CPU")
    assert titles["memory-1"].endswith(": n2 another CPU")
    assert "products-1" in titles and "collectives-2-1" in titles
    assert [anchor for anchor in titles if anchor.startswith("training")] == ["training"]
