"""Records as sides: what they have in common, what they have not, and their dated changes."""

from dataclasses import replace

import pytest
from mi300bench.comparison.sides import apart, family_of, label_of, side_of, split
from mi300bench.schema.record import Outcome, World


def test_a_family_is_of_one_framework_and_one_number_of_ranks(make_record) -> None:
    copy = make_record("memory.copy")
    assert family_of(copy) == "memory"
    assert family_of(replace(copy, world=World(ranks=4))) == "memory x4"
    assert family_of(make_record("jax.memory.add")) == "jax.memory"


def test_a_label_names_parameters_environment_and_ranks(make_record) -> None:
    record = make_record(params={"bytes": 4, "a": 1}, environment={"NCCL_ALGO": "Ring"}, ranks=2)
    assert label_of(record) == "memory.copy a=1 bytes=4 NCCL_ALGO=Ring x2"


def test_a_side_has_the_processes_of_the_newest_run_and_the_medians_of_those_before(
    make_record,
) -> None:
    def run(name: str, day: int, *seconds: float):
        return [
            make_record(
                run=name,
                pass_index=i,
                samples=(s,) * 3,
                started_at=f"2026-01-0{day}T00:00:00+00:00",
            )
            for i, s in enumerate(seconds)
        ]

    (point,) = side_of([*run("b", 2, 3.0, 5.0), *run("a", 1, 1.0, 2.0, 3.0)]).values()
    assert point.seconds == (3.0, 5.0) and point.run == "b"
    assert point.earlier == {"a": 2.0}


def test_what_two_sides_do_not_share_is_named(make_record) -> None:
    shared, lost, new, broken = (
        make_record(params={"bytes": size}, point=str(size)) for size in (1, 2, 3, 4)
    )
    failed = replace(broken, outcome=Outcome.FAILED, reason="out of memory", samples=())
    newer = replace(shared, conditions={**shared.conditions, "framework_version": "9"})
    unshared = apart([shared, lost, broken], [newer, new, failed])
    assert unshared.only_first == (label_of(lost),)
    assert unshared.only_second == (label_of(new),)
    (text,) = unshared.broken
    assert text.startswith(label_of(broken)) and "out of memory" in text
    assert unshared.differing == {"framework_version": ("2.13.0", "2.13.0, 9")}


@pytest.mark.parametrize("by", ["node", "run", "device", "framework", "runtime"])
def test_records_are_split_by_the_value_of_an_attribute(make_record, by: str) -> None:
    one = make_record(conditions={"framework": "torch", "runtime": "ROCm 7"})
    other = make_record(
        node="n2", run="r2", device="b", conditions={"framework": "jax", "runtime": "ROCm 8"}
    )
    groups = split([other, one, one], by)
    assert list(groups) == sorted(groups) and sorted(map(len, groups.values())) == [1, 2]
