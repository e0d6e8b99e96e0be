"""The memory model against what autograd really keeps, and against the instrument."""

from dataclasses import replace

import pytest

from mi300bench_training.zaya1 import memory
from mi300bench_training.zaya1.config import (
    ZayaComputeConfig,
    ZayaConfig,
    ZayaDataConfig,
    ZayaModelConfig,
)
from mi300bench_training.zaya1.spec import TRAINER

SHAPE = ZayaModelConfig(
    vocab=64,
    hidden=96,
    blocks=2,
    heads=8,
    kv_heads=2,
    head_dim=32,
    experts=8,
    expert_width=160,
    router_width=24,
)


def config_of(precision: str, experts: str, blocks: int) -> ZayaConfig:
    return ZayaConfig(
        preset="test",
        model=replace(SHAPE, blocks=blocks),
        data=ZayaDataConfig(seq_len=64, micro_batch=4),
        compute=ZayaComputeConfig(experts=experts),
        precision=precision,
    )


def kept_bytes(config: ZayaConfig) -> tuple[float, float]:
    """Return the bytes that autograd keeps in a forward pass, and the mean load of the blocks.

    Parameters do not count, and each storage counts once.
    """
    import torch

    from mi300bench_training.zaya1 import model

    built = model.build(config, device="cpu")
    owned = {
        tensor.untyped_storage().data_ptr() for tensor in [*built.parameters(), *built.buffers()]
    }
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    tokens = torch.randint(0, 64, (4, 64), generator=torch.Generator().manual_seed(2))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        built(tokens, tokens)
    loads = [
        float(torch.bincount(b.router.chosen_N, minlength=8)[:8].max()) * 8 / 256
        for b in built.blocks
    ]
    return sum(kept.values()), loads[-1]


@pytest.mark.torch
@pytest.mark.parametrize("experts", ["grouped", "padded", "loop"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_activations_are_counted_as_autograd_keeps_them(precision: str, experts: str) -> None:
    two, load = kept_bytes(config_of(precision, experts, blocks=2))
    one, _ = kept_bytes(config_of(precision, experts, blocks=1))
    rows = load if experts == "padded" else 1.0
    is_bf16 = precision == "bfloat16"
    predicted = 256 * memory.activation_bytes_per_token(SHAPE, is_bf16=is_bf16, load=rows)
    predicted += 2 * memory._block_elements(SHAPE) if is_bf16 else 0
    assert predicted == pytest.approx(two - one, rel=0.04)


@pytest.mark.torch
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"data.micro_batch": 16},
        {"data.micro_batch": 16, "compute.recompute": "block", "compute.loss_chunk": 64},
        {"data.accumulate": 2, "compute.loss_chunk": 64},
        {"data.micro_batch": 16, "precision": "bfloat16"},
    ],
    ids=str,
)
def test_the_peak_is_near_what_the_instrument_sees(keys) -> None:
    from mi300bench.device.open import open_torch_device
    from mi300bench.schema.probe import RankContext

    from mi300bench_training.zaya1 import measure

    params = {
        "preset": "tiny",
        "data.seq_len": 256,
        "data.micro_batch": 4,
        "model.vocab": 2048,
    } | keys
    probe = measure.Memory(params, RankContext(rank=0, ranks=1, device=open_torch_device("cpu")))
    probe.prepare()
    predicted = memory.need(probe.config, ranks=1).peak_bytes
    assert predicted == pytest.approx(probe.peak_bytes, rel=0.1)


def test_each_knob_moves_the_peak_as_it_should() -> None:
    base = TRAINER.override(TRAINER.preset("small"), {"data.micro_batch": 16})
    peak = memory.need(base, ranks=1).peak_bytes
    for keys in (
        {"compute.recompute": "block"},
        {"compute.loss_chunk": 128},
        {"data.micro_batch": 8},
        {"precision": "bfloat16"},
    ):
        assert memory.need(TRAINER.override(base, keys), ranks=1).peak_bytes < peak
    assert (
        memory.need(
            TRAINER.override(base, {"compute.experts": "padded"}), ranks=1, load=3.0
        ).peak_bytes
        > peak
    )
    assert memory.need(base, ranks=2).peak_bytes > peak
    whole = memory.need(base, ranks=1)
    assert sum(whole.parts.values()) == whole.peak_bytes


def test_the_8b_model_needs_what_its_weights_say() -> None:
    config = TRAINER.override(
        TRAINER.preset("zaya1-8b"),
        {"compute.loss_chunk": 1024, "compute.recompute": "block", "data.micro_batch": 1},
    )
    need = memory.need(config, ranks=8)
    assert (
        need.parts["parameters"] == 4 * 8_840_488_784
        and need.parts["optimizer"] == 8 * 8_840_488_784
    )
    assert need.peak_bytes < 206_141_652_992
