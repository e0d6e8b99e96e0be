"""The training step of any size, compiled without a weight: what a device holds, receives and computes.

Run as a process of its own, because the number of virtual devices is a flag that is read once:
``python -m mi300bench_training.lora405b.plan`` reads a list of configs as JSON and prints what it found of each, in order.

Arguments are exact: the arrays a device is given. The CPU backend's temporary bytes are a bound, since it schedules for a CPU;
hoisting conversions out of the loop over layers is switched off, which would keep all weights as float32 there.
"""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--xla_force_host_platform_device_count={devices}",
    "--xla_dump_to={folder}",
    "--xla_dump_hlo_pass_re=spmd-partitioning",
    "--xla_disable_hlo_passes=while-loop-invariant-code-motion,while-loop-expensive-invariant-code-motion",
)
PARTITIONED = "after_spmd-partitioning"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFigures:
    """One compiled step, per device. Bytes; `received` by kind of collective, `among` by size of group; seconds of compiling;
    `tensors` are path, shape, spec and shape on a device."""

    weights: float
    adapters: float
    optimizer: float
    arguments: float
    output: float
    alias: float
    temp: float
    received: dict[str, float]
    among: dict[int, float]
    collectives: dict[str, int]
    flop: float
    compile_s: float
    tensors: list[tuple[str, tuple[int, ...], str, tuple[int, ...]]]

    @property
    def bound(self) -> float:
        """Return the most that a device is known to need: arguments, what is not donated of the output, temporary bytes."""
        return self.arguments + self.output - self.alias + self.temp


def compile_step(config: Any, folder: Path) -> CompiledFigures:
    """Return the step of `config` compiled for its mesh of virtual devices; nothing is allocated."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding

    from mi300bench_training.lora405b import hlo, model, sharding, step

    start = time.monotonic()
    mesh = sharding.make_mesh(config.mesh)

    def placed(tree: Any) -> Any:
        where = sharding.shardings(mesh, tree)
        return jax.tree.map(
            lambda leaf, spot: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=spot),
            tree,
            where,
        )

    weights = placed(model.empty(config))
    state = placed(jax.eval_shape(lambda: step.new_state(config, jax.random.key(0))))
    shape, spot = (config.data.batch, config.data.seq_len), NamedSharding(mesh, sharding.BATCH)
    batch = {
        name: jax.ShapeDtypeStruct(shape, jnp.int32, sharding=spot)
        for name in ("tokens", "targets", "documents")
    }
    before = set(folder.glob(f"*{PARTITIONED}*"))
    lowered = step.jitted(config, mesh).lower(weights, state, batch)
    compiled = lowered.compile()
    dumped = {path for path in folder.glob(f"*{PARTITIONED}*") if "jit_step" in path.name} - before
    # One device is not partitioned: the module that was given to the compiler moves nothing.
    text = (
        dumped.pop().read_text()
        if dumped
        else lowered.compiler_ir(dialect="hlo").as_hlo_module().to_string()
    )
    found = hlo.traffic(text, config.mesh.devices)
    memory = compiled.memory_analysis()

    def on_a_device(tree: Any) -> float:
        leaves = jax.tree.leaves(tree)
        return float(
            sum(
                leaf.dtype.itemsize * _product(leaf.sharding.shard_shape(leaf.shape))
                for leaf in leaves
            )
        )

    return CompiledFigures(
        weights=on_a_device(weights),
        adapters=on_a_device(state["adapters"]),
        optimizer=on_a_device(state["optimizer"]),
        arguments=float(memory.argument_size_in_bytes),
        output=float(memory.output_size_in_bytes),
        alias=float(memory.alias_size_in_bytes),
        temp=float(memory.temp_size_in_bytes),
        received=dict(found.received),
        among=dict(found.among),
        collectives=dict(found.calls),
        flop=found.flop,
        compile_s=time.monotonic() - start,
        tensors=sharding.table(mesh, weights) + sharding.table(mesh, state["adapters"]),
    )


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def main() -> int:
    """Read configs from stdin, print a JSON line for each: what was planned, or why not."""
    from mi300bench.errors import Mi300benchError

    from mi300bench_training.lora405b.spec import TRAINER

    configs = [TRAINER.from_tables(tables) for tables in json.load(sys.stdin)]
    devices = configs[0].mesh.devices
    with tempfile.TemporaryDirectory() as name:
        given = " ".join(flag.format(devices=devices, folder=name) for flag in FLAGS)
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {given}".strip()
        os.environ["JAX_PLATFORMS"] = "cpu"
        # A program from the cache leaves no dump to read the traffic from.
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        for config in configs:
            try:
                answer: dict[str, Any] = dataclasses.asdict(compile_step(config, Path(name)))
            except Mi300benchError as cause:
                answer = {"error": str(cause), "hint": cause.hint}
            for path in Path(name).iterdir():  # the dumps of one step are tens of megabytes
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
