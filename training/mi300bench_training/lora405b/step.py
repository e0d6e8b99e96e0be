"""One training step: the loss of a batch, gradients of the adapters, AdamW on them.

The state is {adapters, optimizer, step}. It is donated, so the old and the new state never exist at
the same time. The frozen weights are a separate argument without gradients.
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
from mi300bench_training.lora405b.config import LoraOptimizerConfig, LoraRunConfig
from mi300bench_training.lora405b.data import IGNORED
from mi300bench_training.lora405b.model import Linear, Tree
from mi300bench_training.lora405b.sharding import Placing

STEPS = 2  # the branch of the seed for dropout; 1 is that of the adapters
HEAD = 1 << 20  # the first number for the head's dropout, beyond those of the layers


def optimizer(config: LoraOptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Return AdamW with clipping, a linear warm-up and a cosine to zero."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, config.lr, config.warmup_steps, max(steps, config.warmup_steps + 1)
    )
    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.adamw(schedule, b1=config.beta1, b2=config.beta2, weight_decay=config.weight_decay),
    )


def new_state(config: LoraRunConfig, key: Array) -> Tree:
    """Return the state before the first step."""
    drawn = low_rank.draw(config.model, config.lora, key)
    return {
        "adapters": drawn,
        "optimizer": optimizer(config.optimizer, config.steps).init(drawn),
        "step": jnp.zeros((), jnp.int32),
    }


def _summed_loss(
    config: LoraRunConfig,
    head: Callable[[Array | int], Linear],
    hidden_BTD: Array,
    targets_BT: Array,
    placing: Placing,
) -> Array:
    """Return the summed cross entropy of the tokens with a target, in float32.

    `head` returns the head for a number, which determines its dropout.
    """

    def some(number: Array | int, hidden: Array, targets: Array) -> Array:
        logits = head(number)("lm_head", x=hidden.reshape(-1, hidden.shape[-1])).astype(jnp.float32)
        wanted = targets.reshape(-1)
        counts = wanted != IGNORED
        chosen = jnp.take_along_axis(logits, jnp.where(counts, wanted, 0)[:, None], axis=-1)[:, 0]
        return jnp.where(counts, jax.nn.logsumexp(logits, axis=-1) - chosen, 0.0).sum()

    rows, length = targets_BT.shape
    # Split along the sequence: rows are on different devices, so a piece of some rows would leave
    # devices idle.
    piece = max(1, config.compute.loss_chunk // rows) if config.compute.loss_chunk else length
    if piece >= length:
        return some(0, hidden_BTD, targets_BT)
    spare = -length % piece
    hidden = (
        jnp.pad(hidden_BTD, ((0, 0), (0, spare), (0, 0)))
        .reshape(rows, -1, piece, hidden_BTD.shape[-1])
        .swapaxes(0, 1)
    )
    targets = (
        jnp.pad(targets_BT, ((0, 0), (0, spare)), constant_values=IGNORED)
        .reshape(rows, -1, piece)
        .swapaxes(0, 1)
    )
    one = jax.checkpoint(
        lambda number, hidden, targets: some(number, placing.activations(hidden), targets)
    )
    pieces = (jnp.arange(len(hidden)), hidden, targets)
    total, _ = jax.lax.scan(
        lambda sum_, part: (sum_ + one(*part), None), jnp.zeros((), jnp.float32), pieces
    )
    return total


def counted(batch: Tree) -> Array:
    """Return the number of tokens of a batch that have a target, at least 1."""
    return jnp.maximum((batch["targets"] != IGNORED).sum(), 1)


def summed_loss(
    config: LoraRunConfig,
    weights: Tree,
    drawn: Tree,
    batch: Tree,
    key: Array | None,
    placing: Placing,
) -> Array:
    """Return the summed cross entropy of the tokens with a target.

    `batch` has tokens, targets and documents, each [B, T].
    """
    hidden = model.hidden_states(
        config, weights, drawn, batch["tokens"], batch["documents"], key, placing
    )
    rate = config.lora.dropout

    def head(number: Array | int) -> Linear:
        dropout = (
            (jax.random.fold_in(key, HEAD + number), rate) if key is not None and rate else None
        )
        return Linear(weights, drawn, config.lora.scale, placing, dropout)

    return _summed_loss(config, head, hidden, batch["targets"], placing)


def loss(
    config: LoraRunConfig,
    weights: Tree,
    drawn: Tree,
    batch: Tree,
    key: Array | None,
    placing: Placing,
) -> Array:
    """Return the mean cross entropy of the tokens with a target."""
    return summed_loss(config, weights, drawn, batch, key, placing) / counted(batch)


def step_function(
    config: LoraRunConfig, mesh: Mesh | None
) -> Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]:
    """Return f(weights, state, batch) -> (state, {loss, gradient_norm}).

    A batch in `accumulate` parts has the same mean loss: each part's sum is divided by the tokens
    of the whole batch.
    """
    placing = Placing(mesh)
    rule = optimizer(config.optimizer, config.steps)

    def gradients(
        weights: Tree, drawn: Tree, part: Tree, key: Array, tokens: Array
    ) -> tuple[Array, Tree]:
        def share(low: Tree) -> Array:
            return summed_loss(config, weights, low, part, key, placing) / tokens

        both: tuple[Array, Tree] = jax.value_and_grad(share)(drawn)
        return both

    def step(weights: Tree, state: Tree, batch: Tree) -> tuple[Tree, Tree]:
        key = jax.random.fold_in(
            jax.random.fold_in(jax.random.key(config.seed), STEPS), state["step"]
        )
        parts, tokens = config.data.accumulate, counted(batch)
        if parts == 1:
            value, gradient = gradients(weights, state["adapters"], batch, key, tokens)
        else:
            split = jax.tree.map(lambda x: x.reshape(parts, -1, *x.shape[1:]), batch)

            def add(
                total: tuple[Array, Tree], each: tuple[Tree, Array]
            ) -> tuple[tuple[Array, Tree], None]:
                part, number = each
                one = gradients(
                    weights, state["adapters"], part, jax.random.fold_in(key, number), tokens
                )
                return jax.tree.map(jnp.add, total, one), None

            zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["adapters"]))
            (value, gradient), _ = jax.lax.scan(add, zero, (split, jnp.arange(parts)))
        change, new = rule.update(gradient, state["optimizer"], state["adapters"])
        readings = {"loss": value, "gradient_norm": optax.global_norm(gradient)}
        return {
            "adapters": optax.apply_updates(state["adapters"], change),
            "optimizer": new,
            "step": state["step"] + 1,
        }, readings

    return step


def jitted(config: LoraRunConfig, mesh: Mesh) -> Any:
    """Return the step; its first call compiles it for the mesh, and it donates the state."""
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
