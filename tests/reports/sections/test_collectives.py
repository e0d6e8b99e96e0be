from dataclasses import replace

from mi300bench.schema.record import World
from tests.reports.example import MI300X, all_reduce

from mi300bench_reports.sections.collectives import collectives

SIZES = (2**16, 2**20, 2**24, 2**28)


def test_the_link_is_fitted(records) -> None:
    (section,) = collectives(records)
    assert section.anchor == "collectives-2" and section.table is not None and section.chart
    (row,) = section.table.rows
    assert row[:4] == ("all_reduce", "100 us", "1.00 GB/s", "1.00 GB/s")
    assert len(section.evidence) == 4


def test_ranks_and_frameworks_have_sections_of_their_own(make_record) -> None:
    def on(ranks: int, framework: str) -> list:
        world = World(ranks=ranks, threads=1, framework=framework)
        probe = {"torch": "collective.all_reduce", "jax": "jax.collective.all_reduce"}[framework]
        return [
            make_record(
                probe,
                params={"bytes": size},
                ranks=ranks,
                world=world,
                samples=(1e-4 + size / 1e9,) * 5,
                work=all_reduce(make_record, size, 1.0).work,
                id=f"{framework}{ranks}{size}",
            )
            for size in SIZES
        ]

    sections = collectives([*on(8, "jax"), *on(8, "torch"), *on(2, "torch")])
    assert [section.anchor for section in sections] == [
        "collectives-2",
        "collectives-8",
        "jax-collectives-8",
    ]


def test_a_line_that_predicts_nothing_is_a_doubt(make_record) -> None:
    few = SIZES[:1] + SIZES[-2:]
    many = [2**power for power in range(10, 29)]
    (poor,), (good,) = (
        collectives([all_reduce(make_record, size, 1e-4 + size / 1e9) for size in sizes])
        for sizes in (few, many)
    )
    assert len(good.sentences) == 1
    assert len(poor.sentences) == 2 and "all_reduce" in poor.sentences[1]


def test_too_few_sizes_make_no_curve(make_record) -> None:
    assert collectives([all_reduce(make_record, SIZES[0], 1e-3)]) == []


def test_published_ranges_are_drawn(make_record) -> None:
    sizes = [2**power for power in range(20, 34)]
    records = [
        all_reduce(make_record, size, 5e-5 + size / 175e9, ranks=8, device=MI300X) for size in sizes
    ]
    (known,) = collectives(records)
    (unknown,) = collectives([replace(record, device="a CPU") for record in records])
    assert ">published<" in known.chart and ">published<" not in unknown.chart
