"""Strategies by name."""

from dataclasses import replace

import pytest
from mi300bench.errors import PlanError
from mi300bench.schema.record import World
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import STRATEGIES, strategy_for, strategy_of
from mi300bench.trainers.registry import spec_of

ZAYA1 = spec_of("zaya1")


def test_each_strategy_has_its_own_name() -> None:
    assert {name: each.name for name, each in STRATEGIES.items()} == {"ddp": "ddp", "mesh": "mesh"}


def test_a_trainer_and_its_job_have_the_declared_strategy() -> None:
    job = Job(spec=ZAYA1, config=ZAYA1.preset("tiny"), world=World(device="cpu"))
    assert strategy_for(ZAYA1) is strategy_of(job) is STRATEGIES["ddp"]
    assert strategy_for(spec_of("lora405b")) is STRATEGIES["mesh"]


def test_an_unknown_strategy_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(PlanError, match=r"zaya1 .*'pipeline'") as caught:
        strategy_for(replace(ZAYA1, strategy="pipeline"))
    assert all(name in caught.value.hint for name in STRATEGIES)
