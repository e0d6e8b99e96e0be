"""What a job accepts, which knobs it weighs, and the work of another config."""

from dataclasses import replace
from typing import Any

import pytest
from mi300bench.errors import PlanError
from mi300bench.schema.record import World
from mi300bench.schema.trainer import KnobKind
from mi300bench.strategies.job import FEWEST_ROUNDS, Job
from mi300bench.trainers.registry import spec_of

ZAYA1, LORA = spec_of("zaya1"), spec_of("lora405b")


@pytest.fixture
def job() -> Job:
    return Job(
        spec=ZAYA1,
        config=ZAYA1.preset("tiny"),
        world=World(device="cpu", ranks=2),
        memory_limit=16e9,
    )


@pytest.fixture
def mesh_job() -> Job:
    config = LORA.override(LORA.preset("tiny"), {"mesh.fsdp": 2})
    return Job(spec=LORA, config=config, world=World(device="cpu", ranks=2, framework="jax"))


@pytest.mark.parametrize(
    ("changed", "value", "option"),
    [
        ({"rounds": FEWEST_ROUNDS - 1}, "2", "--rounds"),
        ({"candidates": 0}, "0", "--candidates"),
        ({"only": ("buckets", "magic")}, "magic", "--only"),
        ({"param_tolerance": 0.0}, "0", "--param-tolerance"),
        ({"param_tolerance": 0.5}, "0.5", "--param-tolerance"),
        ({"memory_limit": 0.0}, "0", "--memory-limit"),
        ({"memory_limit": -1.0}, "-1", "--memory-limit"),
    ],
    ids=str,
)
def test_an_impossible_option_is_refused_by_name_and_value(
    job: Job, changed: dict[str, Any], value: str, option: str
) -> None:
    with pytest.raises(PlanError, match=value) as caught:
        replace(job, **changed)
    assert option in caught.value.hint


def test_the_smallest_possible_options_are_accepted(job: Job) -> None:
    changed = replace(
        job,
        rounds=FEWEST_ROUNDS,
        candidates=1,
        param_tolerance=0.001,
        memory_limit=1.0,
        only=job.spec.knob_names,
    )
    assert changed.rounds == FEWEST_ROUNDS and replace(job, memory_limit=None) is not None


def test_a_mesh_that_does_not_cover_the_ranks_is_refused(mesh_job: Job) -> None:
    with pytest.raises(PlanError, match=r"1,2,1.* 2 devices.* 4") as caught:
        replace(mesh_job, world=replace(mesh_job.world, ranks=4))
    assert "--ranks 2" in caught.value.hint


def test_all_knobs_are_weighed_unless_some_are_named_or_shapes_are_kept(job: Job) -> None:
    assert all(job.weighs(name) for name in job.spec.knob_names)
    kept = replace(job, keep_shapes=True)
    assert not kept.weighs("shapes") and kept.weighs("buckets")
    named = replace(job, only=("shapes", "experts"))
    assert [n for n in job.spec.knob_names if named.weighs(n)] == ["experts", "shapes"]
    assert not replace(named, keep_shapes=True).weighs("shapes")


def test_weighed_knobs_are_those_of_the_kinds_in_the_trainer_s_order(job: Job) -> None:
    runs = [knob.name for knob in job.weighed(KnobKind.RUN)]
    assert runs == ["experts", "loss_chunk", "recompute", "precision"]
    both = [knob.name for knob in job.weighed(KnobKind.BUCKETS, KnobKind.LAYOUT)]
    assert both == ["batch", "buckets"]
    assert [k.name for k in replace(job, only=("precision",)).weighed(KnobKind.RUN)] == [
        "precision"
    ]
    assert not job.weighed(KnobKind.MESH)


def test_work_is_the_useful_flop_over_the_default_s(job: Job, mesh_job: Job) -> None:
    assert job.work_of({}) == 1.0
    assert job.work_of({"compute.recompute": "block"}) == 1.0  # recomputation is not useful work
    keys = {"model.expert_width": 2 * job.config.model.expert_width}
    wider = job.spec.describe(job.with_keys(keys)).flop_per_token
    assert job.work_of(keys) == wider / job.described.flop_per_token > 1
    # Longer sequences have more attention for each token.
    assert mesh_job.work_of({"data.seq_len": 256, "data.batch": 4}) > 1


def test_keys_that_the_config_refuses_are_not_possible(job: Job, mesh_job: Job) -> None:
    assert job.is_possible({"data.micro_batch": 2})
    assert not job.is_possible({"data.micro_batch": 0})
    assert mesh_job.is_possible({"mesh.fsdp": 4}) and not mesh_job.is_possible({"mesh.fsdp": 3})


def test_only_knobs_that_affect_memory_affect_memory(job: Job) -> None:
    assert job.affects_memory("batch") and not job.affects_memory("buckets")


def test_the_options_of_a_knob_see_the_job(job: Job) -> None:
    request = replace(job, precisions=("bfloat16",)).request(is_short_of_memory=True)
    assert list(ZAYA1.knob("precision").options(request)) == [{"precision": "bfloat16"}]
    assert list(ZAYA1.knob("recompute").options(request)) == [{"compute.recompute": "block"}]
    plenty = job.request(is_short_of_memory=False)
    assert not ZAYA1.knob("recompute").options(plenty)
    assert not ZAYA1.knob("precision").options(plenty)
