"""The mesh axis (dp, fsdp, mp) of each axis of each tensor, as a table of patterns.

Weights with a split output (query, key, value, gate, up, head) are ("fsdp", "mp"); those with a
split input (attention output, down) are ("mp", "fsdp"). An adapter is split like its weight, so mp
needs no collective for it: with a split output B is split, with a split input A is. fsdp splits all
of them further while they are stored; they are gathered for each use. The batch is split over dp
and fsdp together; sequences are never split.
"""

import math
import re
from typing import Any, final

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from mi300bench.errors import NodeError, PlanError

from mi300bench_training.lora405b.config import MeshConfig

AXES = ("dp", "fsdp", "mp")
BATCH = P(("dp", "fsdp"), None)
ACTIVATIONS = P(("dp", "fsdp"), None, None)
SPLIT_OUTPUT, SPLIT_INPUT = "(q|k|v|gate|up)_proj", "(o|down)_proj"
# The first pattern that matches a tensor's dotted path applies.
RULES: tuple[tuple[str, P], ...] = (
    (rf"layers\.{SPLIT_OUTPUT}\.a", P(None, "fsdp", None)),
    (rf"layers\.{SPLIT_OUTPUT}\.b", P(None, None, ("mp", "fsdp"))),
    (rf"layers\.{SPLIT_INPUT}\.a", P(None, ("mp", "fsdp"), None)),
    (rf"layers\.{SPLIT_INPUT}\.b", P(None, None, "fsdp")),
    (r"lm_head\.a", P("fsdp", None)),
    (r"lm_head\.b", P(None, ("mp", "fsdp"))),
    (rf"layers\.{SPLIT_OUTPUT}", P(None, "fsdp", "mp")),
    (rf"layers\.{SPLIT_INPUT}", P(None, "mp", "fsdp")),
    (r"layers\..*norm", P(None, None)),
    (r"norm", P(None)),
    (r"embed", P("mp", "fsdp")),
    (r"lm_head", P("fsdp", "mp")),
)


def path_of(keys: Any) -> str:
    """Return a tree path as dotted text."""
    return ".".join(
        str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in keys
    )


def rule(path: str) -> P:
    """Return the spec of the tensor at `path`; a tensor that no pattern matches is not split."""
    for pattern, spec in RULES:
        if re.search(rf"(^|\.){pattern}$", path):
            return spec
    return P()


def make_mesh(config: MeshConfig, devices: list[Any] | None = None) -> Mesh:
    """Return the mesh; `NodeError` if this process has another number of devices."""
    present = jax.devices() if devices is None else devices
    if len(present) != config.devices:
        raise NodeError(
            f"the mesh {config.dp},{config.fsdp},{config.mp} needs {config.devices} devices, but "
            f"there are {len(present)}",
            hint=f"give a mesh of {len(present)} devices; on a CPU you can set "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={config.devices}",
        )
    return jax.make_mesh(
        (config.dp, config.fsdp, config.mp),
        AXES,
        devices=present,
        axis_types=(jax.sharding.AxisType.Auto,) * 3,
    )


def shardings(mesh: Mesh, tree: Any) -> Any:
    """Return the sharding of every leaf of a tree of arrays or shapes.

    `PlanError` if a mesh axis does not divide a tensor.
    """

    def one(keys: Any, leaf: Any) -> NamedSharding:
        path = path_of(keys)
        spec = rule(path)
        for size, axes in zip(leaf.shape, spec, strict=False):
            names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
            parts = math.prod(mesh.shape[name] for name in names)
            if size % parts:
                axes_text = " x ".join(f"{name}={mesh.shape[name]}" for name in names)
                raise PlanError(
                    f"{axes_text} does not divide {path} of shape {tuple(leaf.shape)}",
                    hint="give another --mesh; mi300bench plan --mesh all tries all of them",
                )
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(one, tree)


def place_rows(mesh: Mesh, rows: dict[str, Any]) -> dict[str, jax.Array]:
    """Return a batch of rows on the mesh; each process provides the rows of its devices."""
    sharding = NamedSharding(mesh, BATCH)
    return {
        name: jax.make_array_from_callback(
            value.shape, sharding, lambda index, value=value: value[index]
        )
        for name, value in rows.items()
    }


def table(mesh: Mesh, tree: Any) -> list[tuple[str, tuple[int, ...], str, tuple[int, ...]]]:
    """Return (path, shape, spec, shape on a device) of every tensor, for a person."""
    rows = []
    for (keys, leaf), sharding in zip(
        jax.tree_util.tree_flatten_with_path(tree)[0],
        jax.tree_util.tree_leaves(shardings(mesh, tree)),
        strict=True,
    ):
        rows.append(
            (
                path_of(keys),
                tuple(leaf.shape),
                str(sharding.spec),
                sharding.shard_shape(tuple(leaf.shape)),
            )
        )
    return rows


def without_fsdp(spec: P) -> P:
    """Return the spec of a tensor in use: gathered over fsdp, but still split over mp."""
    kept = []
    for axes in spec:
        names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
        left = tuple(name for name in names if name != "fsdp")
        kept.append(left[0] if len(left) == 1 else left or None)
    return P(*kept)


@final
class Placing:
    """Constrains activations, weights and adapters within a step; has no effect on one device."""

    def __init__(self, mesh: Mesh | None = None) -> None:
        self.mesh = mesh if mesh is not None and mesh.size > 1 else None

    def activations(self, x: jax.Array) -> jax.Array:
        """Return activations [B, T, D], split along the batch only."""
        return (
            x
            if self.mesh is None
            else jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, ACTIVATIONS))
        )

    def weight(self, name: str, matrix: jax.Array) -> jax.Array:
        """Return one layer's frozen weight [in, out] gathered over fsdp and split over mp."""
        return self._used(name if name == "lm_head" else f"layers.{name}", matrix)

    def adapter(self, name: str, part: str, matrix: jax.Array) -> jax.Array:
        """Return one layer's A or B of a target, gathered over fsdp.

        Without this constraint the compiler gathers activations instead.
        """
        return self._used(
            f"lm_head.{part}" if name == "lm_head" else f"layers.{name}.{part}", matrix
        )

    def _used(self, path: str, matrix: jax.Array) -> jax.Array:
        if self.mesh is None:
            return matrix
        used = without_fsdp(P(*rule(path)[-2:]))
        return jax.lax.with_sharding_constraint(matrix, NamedSharding(self.mesh, used))
