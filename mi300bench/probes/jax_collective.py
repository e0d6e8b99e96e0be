"""Collectives on a mesh of the devices of one process, compiled by XLA under `shard_map`.

S is the total size, as in nccl-tests: the output of an all_gather, the input of a reduce_scatter.
On a CPU the devices are virtual and share the cores and the memory. The time is then that of XLA's
copies, and the records must have the origin emulated.

params: bytes (S), dtype
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from mi300bench.schema.probe import AbstractProbe, RankContext
from mi300bench.schema.record import Scalar, Work

AXIS = "devices"
Array = np.ndarray[Any, Any]


class AbstractJaxCollective(AbstractProbe):
    """One collective among all devices."""

    starts_with_part: ClassVar[bool] = False  # whether the input of a device is a part of S

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.dtype = jnp.dtype(str(params["dtype"]))
        self.ranks = context.ranks
        self.part = max(1, -(-int(str(params["bytes"])) // self.dtype.itemsize // self.ranks))
        self.elements = self.part * self.ranks

    def prepare(self) -> None:
        mesh = jax.make_mesh((self.ranks,), (AXIS,), devices=jax.devices()[: self.ranks])
        width = self.part if self.starts_with_part else self.elements
        values = np.arange(self.ranks * width, dtype=np.int32) % 3
        self.values = values.astype(np.float32).reshape(self.ranks, width)
        self.input = jax.device_put(
            jnp.asarray(self.values, self.dtype), NamedSharding(mesh, P(AXIS, None))
        )
        body = self.operation
        self.run = jax.jit(
            jax.shard_map(
                lambda x: body(x[0])[None],
                mesh=mesh,
                in_specs=P(AXIS, None),
                out_specs=P(AXIS, None),
                check_vma=False,
            )
        )

    def call(self) -> None:
        self.context.device.pending = self.run(self.input)
        if self.context.device.is_cpu:
            # Virtual devices share few threads: overlapping calls can wait for each other until XLA
            # aborts the process.
            self.context.device.synchronize()

    def work(self) -> Work:
        return Work(message_bytes=float(self.elements * self.dtype.itemsize))

    @abc.abstractmethod
    def operation(self, x: jax.Array) -> jax.Array:
        """Return the output of a device for its input; both have one axis."""

    @abc.abstractmethod
    def expected(self) -> Array:
        """Return the expected output, with a row per device."""

    def check(self) -> str:
        seen = np.asarray(self.context.device.pending, np.float32)
        wrong = int((seen != self.expected()).sum())
        return "" if wrong == 0 else f"{wrong} of {seen.size} elements are wrong"


@final
class JaxAllReduce(AbstractJaxCollective):
    """Sum over the devices, on every device."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, AXIS)

    def expected(self) -> Array:
        return np.broadcast_to(self.values.sum(axis=0), self.values.shape)


@final
class JaxAllGather(AbstractJaxCollective):
    """The parts of all devices, on every device."""

    starts_with_part = True

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.all_gather(x, AXIS, tiled=True)

    def expected(self) -> Array:
        return np.broadcast_to(self.values.reshape(-1), (self.ranks, self.elements))


@final
class JaxReduceScatter(AbstractJaxCollective):
    """Sum over the devices; each keeps its part."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.psum_scatter(x, AXIS, tiled=True)

    def expected(self) -> Array:
        whole: Array = self.values.sum(axis=0)
        return whole.reshape(self.ranks, self.part)


@final
class JaxAllToAll(AbstractJaxCollective):
    """Each device sends a part to each device."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(x.reshape(self.ranks, -1), AXIS, 0, 0).reshape(-1)

    def expected(self) -> Array:
        parts: Array = self.values.reshape(self.ranks, self.ranks, self.part)
        by_receiver: Array = parts.transpose(1, 0, 2)
        return by_receiver.reshape(self.ranks, self.elements)
