"""The published counts, exactly, and the closed forms of communication."""

import pytest
from mi300bench.errors import PlanError

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.config import LAYER_TARGETS, PRESETS, LoraConfig
from mi300bench_training.lora405b.spec import TRAINER

MODEL = TRAINER.preset("405b").model


def test_the_405b_model_has_as_many_parameters_as_published() -> None:
    assert shapes.count(shapes.parameters(MODEL)) == 405_853_388_800
    assert shapes.matmul_elements(MODEL) == 403_747_897_344
    assert (
        sum(inside * outside for inside, outside in shapes.linears(MODEL).values())
        == 570_425_344 + 2_617_245_696
    )


@pytest.mark.parametrize(
    ("targets", "rank", "count"),
    [
        (LAYER_TARGETS, 8, 311_721_984),
        ((*LAYER_TARGETS, "lm_head"), 8, 312_879_104),
        (("q_proj", "k_proj", "v_proj", "o_proj"), 8, 101_154_816),
        (("q_proj", "v_proj"), 8, 50_577_408),
        (LAYER_TARGETS, 16, 623_443_968),
        (LAYER_TARGETS, 64, 2_493_775_872),
    ],
)
def test_adapters_have_as_many_parameters_as_worked_out(targets, rank: int, count: int) -> None:
    assert shapes.count(shapes.adapters(MODEL, LoraConfig(rank=rank, targets=targets))) == count


def test_the_seed_step_s_flop_are_four_a_weight_and_its_crossover_is_where_systems_put_it() -> None:
    config = TRAINER.preset("405b")
    assert shapes.flop_per_token(config) * 1024 == pytest.approx(1.654e15, rel=0.01)
    # Both passes over the weights, 7/8 of 811.7 GB each.
    assert shapes.gathered_bytes(config) == pytest.approx(2 * 7 / 8 * 811.7e9, rel=1e-3)
    tensor = TRAINER.override(config, {"mesh.fsdp": 1, "mesh.mp": 8})
    assert shapes.gathered_bytes(tensor) == 0
    for remat, all_reduces, crossover in (("none", 4, 49_000), ("full", 5, 39_000)):
        chosen = TRAINER.override(tensor, {"compute.remat": remat})
        per_token = shapes.reduced_bytes(chosen) / 1024
        assert per_token == pytest.approx(all_reduces * 126 * 2 * 7 / 8 * 16_384 * 2)
        assert shapes.gathered_bytes(config) / per_token == pytest.approx(crossover, rel=0.02)


def test_the_config_survives_tables_and_refuses_nonsense() -> None:
    for config in PRESETS.values():
        assert TRAINER.from_tables(TRAINER.to_tables(config)) == config
    config = TRAINER.preset("tiny")
    for keys in (
        {"lora.targets": ("magic",)},
        {"lora.rank": 0},
        {"mesh.dp": 0},
        {"compute.remat": "some"},
        {"compute.unroll": 0},
        {"mesh.fsdp": 3},
        {"data.seq_len": 1},
        {"precision": "int4"},
        {"model.kv_heads": 3},
        {"nothing.at": 1},
    ):
        with pytest.raises(PlanError):
            TRAINER.override(config, keys)
    with pytest.raises(PlanError, match="dp=1 x fsdp=8"):
        TRAINER.override(config, {"mesh.fsdp": 8, "data.batch": 4})
