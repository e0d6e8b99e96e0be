"""The same step on every mesh of eight virtual devices, and what lies where."""

import numpy as np
import pytest
from mi300bench.errors import NodeError, PlanError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from mi300bench_training.lora405b import data, model, sharding, step  # noqa: E402
from mi300bench_training.lora405b.config import TARGETS, MeshConfig  # noqa: E402
from mi300bench_training.lora405b.spec import TRAINER  # noqa: E402

CONFIG = TRAINER.override(
    TRAINER.preset("tiny"),
    {
        "data.seq_len": 32,
        "data.batch": 8,
        "compute.attention_block": 16,
        "lora.targets": TARGETS,
        "optimizer.warmup_steps": 0,
        "precision": "float32",
    },
)
MESHES = [(1, 8, 1), (1, 1, 8), (2, 2, 2), (8, 1, 1)]


def on(mesh: tuple[int, int, int]):
    return TRAINER.override(
        CONFIG, dict(zip(("mesh.dp", "mesh.fsdp", "mesh.mp"), mesh, strict=True))
    )


@pytest.fixture(scope="module")
def start():
    weights = jax.device_get(model.draw(CONFIG, jax.random.key(0)))
    state = jax.device_get(step.new_state(CONFIG, jax.random.key(1)))
    tokens = np.random.default_rng(0).integers(0, CONFIG.model.vocab, (8, 33))
    batch = {
        "tokens": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "documents": np.zeros((8, 32), np.int64),
    }
    return weights, state, {name: value.astype(np.int32) for name, value in batch.items()}


def three_steps(config, mesh, start):
    """State and losses after three steps on a mesh (None: one device, no mesh)."""
    weights, state, batch = start
    if mesh is None:
        run = jax.jit(step.step_function(config, None))
        placed_weights, placed = jax.tree.map(jnp.asarray, (weights, state))
    else:
        run = step.jitted(config, mesh)
        placed_weights = jax.device_put(weights, sharding.shardings(mesh, weights))
        placed = jax.device_put(state, sharding.shardings(mesh, state))
    losses = []
    for _ in range(3):
        placed, answer = run(placed_weights, placed, batch)
        losses.append(float(answer["loss"]))
    return jax.device_get(placed), losses


@pytest.fixture(scope="module")
def one_device(start):
    """State and losses after three steps on one device, to compare the meshes with."""
    return three_steps(CONFIG, None, start)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_every_mesh_takes_the_steps_of_one_device(mesh, start, one_device) -> None:
    expected, losses = one_device
    config = on(mesh)
    state, sharded = three_steps(config, sharding.make_mesh(config.mesh), start)
    assert sharded == pytest.approx(losses, abs=1e-5) and losses[2] < losses[0]
    for one, other in zip(
        jax.tree.leaves(state["adapters"]), jax.tree.leaves(expected["adapters"]), strict=True
    ):
        assert np.abs(one - other).max() < 1e-5


def test_accumulating_is_one_large_batch_however_unevenly_its_tokens_count(start) -> None:
    weights, state, batch = start
    targets = batch["targets"].copy()
    targets[2:, 3:] = data.IGNORED
    start = weights, state, batch | {"targets": targets}
    whole, losses = three_steps(CONFIG, None, start)
    parts, summed = three_steps(TRAINER.override(CONFIG, {"data.accumulate": 4}), None, start)
    assert summed == pytest.approx(losses, abs=1e-5)
    for one, other in zip(
        jax.tree.leaves(whole["adapters"]), jax.tree.leaves(parts["adapters"]), strict=True
    ):
        assert np.abs(one - other).max() < 1e-5


def test_a_loss_in_pieces_is_the_loss_on_a_mesh_too(start, one_device) -> None:
    _, losses = one_device
    config = TRAINER.override(on((2, 2, 2)), {"compute.loss_chunk": 40})
    _, cut = three_steps(config, sharding.make_mesh(config.mesh), start)
    assert cut == pytest.approx(losses, abs=1e-5)


def test_sequences_are_never_cut_and_adapters_follow_their_weights() -> None:
    config = on((2, 2, 2))
    mesh = sharding.make_mesh(config.mesh)
    assert jax.sharding.PartitionSpec(("dp", "fsdp"), None) == sharding.BATCH
    state = jax.eval_shape(lambda: step.new_state(config, jax.random.key(0)))
    rows = {
        path: (spec, shape)
        for path, _, spec, shape in sharding.table(mesh, {"w": model.empty(config), "s": state})
    }
    assert rows["w.layers.q_proj"][1] == (4, 64, 64) and rows["w.layers.down_proj"][1] == (
        4,
        176,
        64,
    )
    assert rows["s.adapters.layers.q_proj.b"][1] == (4, 8, 32) and rows[
        "s.adapters.layers.q_proj.a"
    ][1] == (4, 64, 8)
    assert rows["s.adapters.layers.down_proj.a"][1] == (4, 88, 8) and rows[
        "s.adapters.layers.down_proj.b"
    ][1] == (4, 8, 64)
    moments = [path for path in rows if ".mu." in path and path.endswith("q_proj.b")]
    assert moments and rows[moments[0]] == rows["s.adapters.layers.q_proj.b"]


def test_a_mesh_that_does_not_divide_or_is_not_there_is_a_message() -> None:
    with pytest.raises(NodeError, match="16 devices"):
        sharding.make_mesh(MeshConfig(fsdp=16))
    odd = TRAINER.override(CONFIG, {"model.ffn": 350, "mesh.mp": 8})
    with pytest.raises(PlanError, match="mp=8"):
        sharding.shardings(sharding.make_mesh(odd.mesh), model.empty(odd))
