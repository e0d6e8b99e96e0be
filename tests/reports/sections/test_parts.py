from mi300bench.schema.record import Work

from mi300bench_reports.sections.parts import pairs, ranks


def test_ranks_are_compared_for_the_largest_messages(make_record) -> None:
    slow = tuple((1.2 if rank == 3 else 1.0,) * 5 for rank in range(8))
    records = [
        make_record(
            "collective.all_reduce",
            ranks=8,
            params={"bytes": size},
            rank_samples=slow,
            work=Work(message_bytes=size),
        )
        for size in (2**20, 2**26)
    ]
    section = ranks(records)
    assert section is not None and section.evidence == (records[1].id, records[0].id)
    assert "64 MiB" in section.chart


def test_two_ranks_have_no_odd_one(make_record) -> None:
    assert ranks([make_record(ranks=2, rank_samples=((1.0,) * 5,) * 2)]) is None


def test_the_largest_transfer_of_each_pair_is_drawn(make_record) -> None:
    records = [
        make_record(
            "transfer",
            params={"bytes": size, "src": f"G{source}", "dst": f"G{target}"},
            samples=(1.0 if size == 2**26 else 9.0,) * 5,
            work=Work(message_bytes=size),
            id=f"{source}{target}{size}",
        )
        for size in (2**26, 2**20)
        for source in range(3)
        for target in range(3)
    ]
    section = pairs(records)
    assert section is not None and "G2" in section.chart and ">0.0671<" in section.chart
    assert len(section.evidence) == 6  # a device is no pair of itself
    assert all(identity.endswith(str(2**26)) for identity in section.evidence)


def test_one_device_has_no_pairs(make_record) -> None:
    assert pairs([make_record("transfer", params={"src": "G0", "dst": "G0"})]) is None
