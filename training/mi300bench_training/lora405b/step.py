"""One training step: the loss of a batch, gradients of the adapters alone, AdamW on them.

State is {adapters, optimizer, step}; it is donated, so that old and new never exist beside each other. The frozen weights
are an argument of their own and get no gradient.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh, NamedSharding

from mi300bench_training.lora405b import adapters as low_rank
from mi300bench_training.lora405b import model, sharding
from mi300bench_training.lora405b.config import OptimizerConfig, TrainConfig
from mi300bench_training.lora405b.model import Linear, Tree
from mi300bench_training.lora405b.sharding import Placing

IGNORED = -1  # a target that does not count: padding, a prompt


def optimizer(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Return AdamW with clipping, a linear warm-up and a cosine to zero."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, config.lr, config.warmup_steps, max(steps, config.warmup_steps + 1))
    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.adamw(schedule, b1=config.beta1, b2=config.beta2, weight_decay=config.weight_decay),
    )


def new_state(config: TrainConfig, key: Array) -> Tree:
    """Return the state before the first step."""
    drawn = low_rank.draw(config.model, config.lora, key)
    return {"adapters": drawn, "optimizer": optimizer(config.optimizer, config.steps).init(drawn), "step": jnp.zeros((), jnp.int32)}


def _summed_loss(config: TrainConfig, head: Linear, hidden_ND: Array, targets_N: Array) -> Array:
    """Return the sum of the cross entropies of tokens whose targets count, in float32."""

    def some(hidden: Array, targets: Array) -> Array:
        logits = head("lm_head", x=hidden).astype(jnp.float32)
        counts = targets != IGNORED
        chosen = jnp.take_along_axis(logits, jnp.where(counts, targets, 0)[:, None], axis=-1)[:, 0]
        return jnp.where(counts, jax.nn.logsumexp(logits, axis=-1) - chosen, 0.0).sum()

    chunk = config.compute.loss_chunk
    if not chunk or chunk >= len(targets_N):
        return some(hidden_ND, targets_N)
    spare = -len(targets_N) % chunk
    hidden = jnp.pad(hidden_ND, ((0, spare), (0, 0))).reshape(-1, chunk, hidden_ND.shape[-1])
    targets = jnp.pad(targets_N, (0, spare), constant_values=IGNORED).reshape(-1, chunk)
    one = jax.checkpoint(some)
    total, _ = jax.lax.scan(lambda sum_, part: (sum_ + one(*part), None), jnp.zeros((), jnp.float32), (hidden, targets))
    return total


def loss(config: TrainConfig, weights: Tree, drawn: Tree, batch: Tree, key: Array | None, placing: Placing) -> Array:
    """Return the mean cross entropy of the tokens that count. `batch` has tokens, targets and documents, each [B, T]."""
    hidden = model.hidden_states(config, weights, drawn, batch["tokens"], batch["documents"], key, placing)
    head = Linear(weights, drawn, config.lora.scale, placing)
    total = _summed_loss(config, head, hidden.reshape(-1, hidden.shape[-1]), batch["targets"].reshape(-1))
    return total / jnp.maximum((batch["targets"] != IGNORED).sum(), 1)


def step_function(config: TrainConfig, mesh: Mesh | None) -> Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]:
    """Return f(weights, state, batch) -> (state, {loss, gradient_norm}); accumulates over `accumulate` parts of the batch."""
    placing = Placing(mesh)
    rule = optimizer(config.optimizer, config.steps)

    def gradients(weights: Tree, drawn: Tree, part: Tree, key: Array) -> tuple[Array, Tree]:
        found: tuple[Array, Tree] = jax.value_and_grad(lambda low: loss(config, weights, low, part, key, placing))(drawn)
        return found

    def step(weights: Tree, state: Tree, batch: Tree) -> tuple[Tree, Tree]:
        key = jax.random.fold_in(jax.random.key(config.seed), state["step"])
        parts = config.data.accumulate
        if parts == 1:
            value, found = gradients(weights, state["adapters"], batch, key)
        else:
            split = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), batch)

            def add(total: tuple[Array, Tree], each: tuple[Tree, Array]) -> tuple[tuple[Array, Tree], None]:
                part, number = each
                one = gradients(weights, state["adapters"], part, jax.random.fold_in(key, number))
                return jax.tree.map(jnp.add, total, one), None

            zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["adapters"]))
            (value, found), _ = jax.lax.scan(add, zero, (split, jnp.arange(parts)))
            value, found = jax.tree.map(lambda x: x / parts, (value, found))
        change, new = rule.update(found, state["optimizer"], state["adapters"])
        told = {"loss": value, "gradient_norm": optax.global_norm(found)}
        return {"adapters": optax.apply_updates(state["adapters"], change), "optimizer": new, "step": state["step"] + 1}, told

    return step


def jitted(config: TrainConfig, mesh: Mesh) -> Any:
    """Return the step compiled for a mesh on its first call, with explicit shardings; the state is donated."""
    weights = model.empty(config)
    state = jax.eval_shape(lambda: new_state(config, jax.random.key(0)))
    batch_sharding = NamedSharding(mesh, sharding.BATCH)
    batches = dict.fromkeys(("tokens", "targets", "documents"), batch_sharding)
    placed = sharding.shardings(mesh, state)
    whole = NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.jit(
        step_function(config, mesh),
        in_shardings=(sharding.shardings(mesh, weights), placed, batches),
        out_shardings=(placed, {"loss": whole, "gradient_norm": whole}),
        donate_argnums=(1,),
    )
