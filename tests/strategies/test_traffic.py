"""The crossover between gathering weights and reducing activations, from curves handed over."""

import pytest
from mi300bench.fit.link import LinkModel
from mi300bench.schema.model import Interval, MeshTraffic
from mi300bench.schema.run_settings import Mesh
from mi300bench.strategies.mesh.traffic import meshes, rank_meshes, step_of

from mi300bench_training.lora405b import shapes
from mi300bench_training.lora405b.spec import TRAINER

MODEL = TRAINER.preset("405b").model
LAYER_BYTES = 2.0 * sum(a * b for a, b in shapes.linears(MODEL).values())
FREE = Interval(low=0.0, mid=0.0, high=0.0)


def curves(op: str, ranks: int, *, busbw: float = 336e9, latency: float = 0.0) -> LinkModel:
    """A ring at `busbw` with a latency."""
    factor = (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks
    sizes = tuple(2.0**power for power in range(10, 36, 3))
    return LinkModel(
        op=op,
        ranks=ranks,
        backend="nccl",
        sizes=sizes,
        seconds=tuple(latency + s * factor / busbw for s in sizes),
        latency_s=latency,
        bandwidth=busbw / factor,
        knee_bytes=0.0,
        kink_bytes=None,
        errors=(0.05,),
        evidence=(f"{op}{ranks}",),
    )


def traffic(tokens: int, remat: str) -> MeshTraffic:
    return MeshTraffic(
        layers=MODEL.layers,
        weight_bytes=LAYER_BYTES,
        token_bytes=2.0 * MODEL.hidden,
        tokens=tokens,
        all_reduces=5 if remat == "full" else 4,
    )


def best(tokens: int, remat: str) -> Mesh:
    whole = [mesh for mesh in meshes(8) if mesh.dp == 1]  # a copy a device does not fit anyway
    return rank_meshes(whole, traffic(tokens, remat), curves, FREE)[0].mesh


@pytest.mark.parametrize("remat", ["none", "full"])
def test_mp_wins_the_seed_s_thousand_tokens_and_fsdp_wins_far_above(remat: str) -> None:
    assert best(1024, remat) == Mesh(dp=1, fsdp=1, mp=8)
    assert best(400_000, remat) == Mesh(dp=1, fsdp=8, mp=1)


@pytest.mark.parametrize(("remat", "crossover"), [("none", 49_000), ("full", 39_000)])
def test_the_pure_meshes_cross_where_the_closed_forms_do(remat: str, crossover: int) -> None:
    def seconds(mesh: Mesh, tokens: int) -> float:
        return step_of(mesh, traffic(tokens, remat), curves, FREE).seconds.mid

    tensor, sharded = Mesh(dp=1, fsdp=1, mp=8), Mesh(dp=1, fsdp=8, mp=1)
    low, high = 1024, 400_000
    while high - low > 100:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if seconds(tensor, middle) < seconds(sharded, middle) else (low, middle)
        )
    # The head's weights, which the closed form counts, are no layer's: 1 % of the whole.
    assert low == pytest.approx(crossover, rel=0.03)


def test_a_slow_all_reduce_moves_the_choice_and_the_evidence_is_named() -> None:
    def lame(op: str, ranks: int) -> LinkModel:
        return curves(op, ranks, busbw=336e9 if op == "all_gather" else 336e9 / 100)

    rows = rank_meshes(
        [Mesh(dp=1, fsdp=1, mp=8), Mesh(dp=1, fsdp=8, mp=1)], traffic(1024, "none"), lame, FREE
    )
    assert rows[0].mesh.fsdp == 8 and rows[0].evidence == ("all_gather8",)


def test_every_factorisation_is_there_once_and_bounds_span_hidden_and_not() -> None:
    every = meshes(8)
    assert len(every) == 10 and all(mesh.devices == 8 for mesh in every)
    compute = Interval(low=1.0, mid=2.0, high=3.0)
    step = step_of(Mesh(dp=1, fsdp=8, mp=1), traffic(1024, "none"), curves, compute)
    wire = step.gather_s + step.reduce_s
    assert step.seconds.low == pytest.approx(
        max(1.0, wire / 1.05)
    ) and step.seconds.high == pytest.approx(3.0 + wire * 1.05)
