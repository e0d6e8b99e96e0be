"""A wrong value in a config is refused with its key, before anything is computed with it."""

from typing import Any

import pytest
from mi300bench.errors import PlanError
from mi300bench.schema.trainer import TrainerSpec

from mi300bench_training.lora405b.spec import TRAINER as LORA405B
from mi300bench_training.zaya1.spec import TRAINER as ZAYA1

WRONG = {
    "optimizer.lr": ("abc", -1.0, float("nan")),
    "optimizer.beta1": (2.0, -0.1),
    "optimizer.warmup_steps": (-3, 1.5),
    "optimizer.clip": (0.0,),
    "model.hidden": ("abc", 0, 2.5),
    "model.kv_heads": (0,),
    "data.seq_len": (1.5, "x", 1),
    "data.accumulate": ("x", 0),
    "data.path": (3,),
    "compute.loss_chunk": ("abc", -1),
    "seed": ("x", -1, 2**31),
    "steps": (True, 0),
    "precision": ("float7", 16),
}
CASES = [(key, value) for key, values in WRONG.items() for value in values]


@pytest.mark.parametrize("trainer", [ZAYA1, LORA405B])
@pytest.mark.parametrize(("key", "value"), CASES)
def test_a_wrong_value_is_named(trainer: TrainerSpec, key: str, value: Any) -> None:
    name = key.rpartition(".")[2]
    with pytest.raises(PlanError, match=name):
        trainer.override(trainer.preset("tiny"), {key: value})
    tables = trainer.to_tables(trainer.preset("tiny"))
    part = tables[key.split(".")[0]] if "." in key else tables
    part[name] = value
    with pytest.raises(PlanError, match=name):
        trainer.from_tables(tables)


@pytest.mark.parametrize(
    ("trainer", "key", "value"),
    [
        (ZAYA1, "ddp.bucket_cap_mb", ["a"]),
        (ZAYA1, "launch.ranks", "a"),
        (LORA405B, "lora.targets", "q_proj"),
        (LORA405B, "mesh.mp", 1.0),
    ],
)
def test_a_wrong_value_of_one_trainer_is_named(trainer: TrainerSpec, key: str, value: Any) -> None:
    with pytest.raises(PlanError, match=key):
        trainer.override(trainer.preset("tiny"), {key: value})


def test_a_whole_number_will_do_for_a_number_and_a_list_for_a_tuple() -> None:
    assert LORA405B.override(LORA405B.preset("tiny"), {"optimizer.clip": 2}).optimizer.clip == 2
    assert LORA405B.override(
        LORA405B.preset("tiny"), {"lora.targets": ["q_proj"]}
    ).lora.targets == ("q_proj",)
    assert ZAYA1.override(
        ZAYA1.preset("tiny"), {"ddp.bucket_cap_mb": [1, 2.5]}
    ).ddp.bucket_cap_mb == [1, 2.5]
