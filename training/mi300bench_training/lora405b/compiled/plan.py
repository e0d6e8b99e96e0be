"""A training step of any size, compiled without weights: a device's memory, communication and FLOP.

It runs in a separate process, because JAX reads the number of virtual devices only once:
``python -m mi300bench_training.lora405b.compiled.plan`` reads a list of configs as JSON and prints
the figures of each as one line of JSON, in the same order.

Arguments are exact: they are the arrays that a device gets. Temporary bytes are an upper bound,
because the CPU backend schedules for a CPU. It must not move conversions out of the loop over
layers, which would keep all weights as float32, so that pass is disabled.
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
    """The figures of one compiled step for each device. Sizes are in bytes.

    received   by kind of collective; `among`: by size of group
    compile_s  seconds of compiling
    tensors    path, shape, spec and shape on a device
    """

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
        """Return the upper bound of a device's need: arguments, new output, temporary bytes."""
        return self.arguments + self.output - self.alias + self.temp


def compile_step(config: Any, folder: Path) -> CompiledFigures:
    """Compile the step of `config` for its mesh of virtual devices; no array is allocated."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding

    from mi300bench_training.lora405b import model, sharding, step
    from mi300bench_training.lora405b.compiled import hlo

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
    # A step on one device is not partitioned; its own module has no communication.
    text = (
        dumped.pop().read_text()
        if dumped
        else lowered.compiler_ir(dialect="hlo").as_hlo_module().to_string()
    )
    traffic = hlo.traffic(text, config.mesh.devices)
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
        received=dict(traffic.received),
        among=dict(traffic.among),
        collectives=dict(traffic.calls),
        flop=traffic.flop,
        compile_s=time.monotonic() - start,
        tensors=sharding.table(mesh, weights) + sharding.table(mesh, state["adapters"]),
    )


def _product(sizes: tuple[int, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def main() -> int:
    """Read configs from stdin; print a line of JSON for each: its figures, or the error."""
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
            for path in Path(name).iterdir():  # the files of one step have tens of megabytes
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
