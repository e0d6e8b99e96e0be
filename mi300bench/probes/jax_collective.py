"""Collectives on a mesh of one process's devices, as XLA runs them under `shard_map`.

S is the total size, as nccl-tests counts: the output of an all_gather, the input of a reduce_scatter. On a CPU the devices are
virtual and share the processor and its memory, so this is the cost of XLA's own copies there: to be labelled emulated.

params: bytes, dtype
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
    """One collective over all devices. `starts_with_part`: whether a device starts with a part of S and not with all of it."""

    starts_with_part: ClassVar[bool] = False

    def __init__(self, params: Mapping[str, Scalar], context: RankContext) -> None:
        super().__init__(params, context)
        self.dtype = jnp.dtype(str(params["dtype"]))
        self.ranks = context.ranks
        self.part = max(1, -(-int(str(params["bytes"])) // self.dtype.itemsize // self.ranks))
        self.elements = self.part * self.ranks

    def prepare(self) -> None:
        mesh = jax.make_mesh((self.ranks,), (AXIS,), devices=jax.devices()[: self.ranks])
        mine = self.part if self.starts_with_part else self.elements
        values = (
            (np.arange(self.ranks * mine, dtype=np.int32) % 3)
            .astype(np.float32)
            .reshape(self.ranks, mine)
        )
        self.values = values
        self.input = jax.device_put(
            jnp.asarray(values, self.dtype), NamedSharding(mesh, P(AXIS, None))
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
            # Virtual devices share few threads: calls that overlap wait for each other's, until XLA ends the process.
            self.context.device.synchronize()

    def work(self) -> Work:
        return Work(message_bytes=float(self.elements * self.dtype.itemsize))

    @abc.abstractmethod
    def operation(self, x: jax.Array) -> jax.Array:
        """Return what a device ends with, from what it starts with; both have one axis."""

    @abc.abstractmethod
    def expected(self) -> Array:
        """Return what each device must hold, a row a device."""

    def check(self) -> str:
        seen = np.asarray(self.context.device.pending, np.float32)
        wrong = int((seen != self.expected()).sum())
        return "" if wrong == 0 else f"{wrong} elements are wrong"


@final
class JaxAllReduce(AbstractJaxCollective):
    """Sum over the devices, on every device."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, AXIS)

    def expected(self) -> Array:
        return np.broadcast_to(self.values.sum(axis=0), self.values.shape)


@final
class JaxAllGather(AbstractJaxCollective):
    """Every device's part, on every device."""

    starts_with_part = True

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.all_gather(x, AXIS, tiled=True)

    def expected(self) -> Array:
        return np.broadcast_to(self.values.reshape(-1), (self.ranks, self.elements))


@final
class JaxReduceScatter(AbstractJaxCollective):
    """Sum over the devices, each keeps its part."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.psum_scatter(x, AXIS, tiled=True)

    def expected(self) -> Array:
        whole: Array = self.values.sum(axis=0)
        return whole.reshape(self.ranks, self.part)


@final
class JaxAllToAll(AbstractJaxCollective):
    """Each device sends a part to each."""

    def operation(self, x: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(x.reshape(self.ranks, -1), AXIS, 0, 0).reshape(-1)

    def expected(self) -> Array:
        parts: Array = self.values.reshape(self.ranks, self.ranks, self.part)
        turned: Array = parts.transpose(1, 0, 2)
        return turned.reshape(self.ranks, self.elements)
