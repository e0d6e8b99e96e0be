"""Configs in the groups that strategies and exporters read."""

import pytest
from mi300bench.schema.run_settings import Buckets, Mesh, Ranks, Recompute
from mi300bench.trainers.registry import names, spec_of

ZAYA1, LORA = spec_of("zaya1"), spec_of("lora405b")


def zaya1(ranks: int = 2, **keys):
    return ZAYA1.settings(ZAYA1.override(ZAYA1.preset("tiny"), keys), ranks)


def lora(**keys):
    return LORA.settings(LORA.override(LORA.preset("tiny"), keys), 1)


def test_zaya1_has_ranks_and_buckets_and_lora_has_a_mesh_and_adapters() -> None:
    ddp, mesh = zaya1(), lora()
    assert ddp.ranks is not None and ddp.buckets is not None
    assert ddp.mesh is None and ddp.adapters is None and ddp.jax_client is None
    assert mesh.mesh is not None and mesh.adapters is not None and mesh.jax_client is not None
    assert mesh.ranks is None and mesh.buckets is None


def test_the_global_batch_counts_ranks_and_micro_batches() -> None:
    batch = zaya1(4, **{"data.micro_batch": 3, "data.accumulate": 2}).batch
    assert (batch.micro_batch, batch.accumulate, batch.global_batch) == (3, 2, 24)
    batch = lora(**{"data.batch": 24, "data.accumulate": 2, "mesh.dp": 2, "mesh.fsdp": 3}).batch
    assert (batch.micro_batch, batch.accumulate, batch.global_batch) == (2, 2, 24)


def test_the_ranks_of_the_config_have_priority() -> None:
    assert zaya1(2).ranks == Ranks(ranks=2, threads=0)
    settings = zaya1(2, **{"launch.ranks": 8, "launch.threads": 3})
    assert settings.ranks == Ranks(ranks=8, threads=3) and settings.batch.global_batch == 32


@pytest.mark.parametrize(
    ("caps", "listed"), [("default", ()), (25, (25.0,)), ([1, 50.0], (1.0, 50.0))], ids=str
)
def test_bucket_caps_are_a_tuple(caps, listed: tuple[float, ...]) -> None:
    assert zaya1(**{"ddp.bucket_cap_mb": caps}).buckets == Buckets(caps_mib=listed)


def test_each_kind_of_recomputation_has_its_group() -> None:
    kinds = {name: zaya1(**{"compute.recompute": name}).recompute for name in ("none", "block")}
    assert kinds == {"none": Recompute.NOTHING, "block": Recompute.LAYERS}
    kinds = {name: lora(**{"compute.remat": name}).recompute for name in ("none", "dots", "full")}
    assert kinds == {
        "none": Recompute.NOTHING,
        "dots": Recompute.ALL_BUT_PRODUCTS,
        "full": Recompute.LAYERS,
    }


def test_a_mesh_counts_its_devices_and_groups() -> None:
    mesh = lora(**{"mesh.dp": 2, "mesh.fsdp": 4, "mesh.mp": 3}).mesh
    assert mesh == Mesh(dp=2, fsdp=4, mp=3)
    assert (mesh.devices, mesh.groups, str(mesh)) == (24, 8, "2,4,3")


def test_adapters_and_the_client_are_those_of_the_config() -> None:
    settings = lora(**{"lora.rank": 4, "lora.rslora": True, "adapter": "a", "weights": "w"})
    adapters = settings.adapters
    assert (adapters.rank, adapters.is_rslora, adapters.adapter) == (4, True, "a")
    assert adapters.weights == "w"
    client = lora(**{"launch.memory_fraction": 0.9, "launch.combine_bytes": 1024}).jax_client
    assert (client.memory_fraction, client.combine_bytes) == (0.9, 1024)


def test_settings_of_the_model_s_own_code_have_the_config_s_values() -> None:
    keys = {"compute.unroll": 2, "compute.loss_chunk": 64}
    own = {each.key: each.value for each in lora(**keys).model_settings}
    assert keys.items() <= own.items() and own["compute.attention_block"] == 512
    assert {each.key for each in lora().model_settings} == {"compute.attention_block"}
    own = {each.key: each.value for each in zaya1(**{"compute.loss_chunk": 64}).model_settings}
    assert own == {"compute.loss_chunk": 64, "compute.experts": "grouped"}


@pytest.mark.parametrize("trainer", names())
def test_what_every_trainer_has_is_that_of_its_config(trainer: str) -> None:
    spec = spec_of(trainer)
    for config in spec.presets.values():
        settings = spec.settings(config, 1)
        assert (settings.preset, settings.precision) == (config.preset, config.precision)
        assert (settings.seed, settings.steps) == (config.seed, config.steps)
        assert settings.is_bf16 == (config.precision == "bfloat16")
        rule = config.optimizer
        assert settings.optimizer.betas == (rule.beta1, rule.beta2)
        assert settings.optimizer.lr == rule.lr and 0 <= settings.optimizer.final_share < 1
