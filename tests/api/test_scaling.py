"""Rows of a scaling table: ordered by devices, efficiency against the smallest number."""

import pytest
from mi300bench.api.scaling import scaling_rows
from mi300bench.schema.record import Outcome, Work, World


def test_rows_are_ordered_and_their_efficiency_is_per_device(make_record) -> None:
    records = [
        make_record(
            "lora405b.step",
            params={"data.batch": 2 * ranks, "data.seq_len": 64},
            samples=(seconds,) * 5,
            work=Work(flop=1e9 * ranks),
            world=World(ranks=ranks, framework="jax"),
            id=f"r{ranks}",
        )
        for ranks, seconds in ((2, 1.25), (1, 1.0))
    ]
    failed = make_record(
        "lora405b.step", world=World(ranks=4), outcome=Outcome.FAILED, reason="x", samples=()
    )
    one, two = scaling_rows([*records, failed])
    assert (one.devices, two.devices) == (1, 2)
    assert one.efficiency.mid == 1.0 and two.efficiency.mid == pytest.approx(0.8)
    assert (one.tokens, two.tokens) == (128, 256)
    assert two.tokens_per_second == pytest.approx(256 / 1.25)
