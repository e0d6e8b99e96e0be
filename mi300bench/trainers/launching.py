"""How a trainer's processes start: a process a rank under torch's launcher, or one process for all devices under JAX.

A trainer declares which; nothing else in the library asks.
"""

import abc
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

from mi300bench.errors import PlanError
from mi300bench.hw import xla_flags
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import is_joined, launched_ranks
from mi300bench.schema.record import Origin, World
from mi300bench.schema.run_settings import RunSettings
from mi300bench.schema.trainer import Launch, TrainerSpec


class Launcher(abc.ABC):
    """A way to start the processes of a run."""

    @abc.abstractmethod
    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return the world to train in; `ranks` as asked for, None where it is left open."""

    @abc.abstractmethod
    def needs_ranks(self, world: World) -> bool:
        """Return whether ranks have to be started first."""

    def require(self, world: World) -> None:
        """Raise where an outside launcher made another world than was asked for."""

    def prepare(self, run: RunSettings, kind: str, settings: Settings) -> Settings:
        """Set what the framework reads before it starts; return the settings with the origin of the run's record."""
        return settings


@final
class ProcessPerRank(Launcher):
    """torch's elastic launcher, ours for one machine or an outside one."""

    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return as many ranks as asked for, else as a launcher made, else as the config says, else one a device."""
        own = run.ranks
        if ranks is None and not is_joined() and own is not None and own.ranks:
            return local_topology(kind, own.ranks, threads=own.threads)
        return local_topology(kind, ranks if ranks is not None else default_ranks(kind))

    def needs_ranks(self, world: World) -> bool:
        """Return whether several ranks are wanted and no launcher has made them."""
        return world.ranks > 1 and not is_joined()

    def require(self, world: World) -> None:
        """Raise where the launcher's ranks are not those asked for."""
        if is_joined() and launched_ranks() != world.ranks:
            raise PlanError(
                f"--ranks {world.ranks} was asked for, the launcher made {launched_ranks()} ranks",
                hint="leave --ranks out",
            )


@final
class OneProcess(Launcher):
    """One process for all devices of a machine; on a CPU they are virtual."""

    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return one process; `ranks` is refused, because the mesh says how many devices there are."""
        if ranks is not None:
            raise PlanError(
                f"--ranks {ranks}: one process trains on all devices of a mesh",
                hint="--set mesh.fsdp=8",
            )
        return local_topology(kind, 1)

    def needs_ranks(self, world: World) -> bool:
        """Return that none has to be started."""
        return False

    def prepare(self, run: RunSettings, kind: str, settings: Settings) -> Settings:
        """Tell JAX what the config says; what the environment sets already stays."""
        if kind != "cpu":
            _prepare_gpu(run)
            return settings
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        virtual = _virtual_devices(run.mesh.devices if run.mesh else 1)
        if virtual == 1:
            return settings
        return replace(
            settings, origin=Origin.EMULATED, source=f"{virtual} virtual devices on one CPU"
        )


def _prepare_gpu(run: RunSettings) -> None:
    client = run.jax_client
    if client is None:
        return
    if client.memory_fraction:
        os.environ.setdefault("XLA_CLIENT_MEM_FRACTION", f"{client.memory_fraction:g}")
    if client.combine_bytes and "combine_threshold" not in os.environ.get("XLA_FLAGS", ""):
        _add_xla_flags(*xla_flags.combining(client.combine_bytes))


def _virtual_devices(wanted: int) -> int:
    """Return the virtual devices of this process: those the environment sets, else `wanted`, which are set."""
    flag = "xla_force_host_platform_device_count"
    given = re.search(rf"{flag}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    if given is not None:  # of each process, where a launcher started several
        return int(given.group(1))
    if wanted > 1:
        _add_xla_flags(f"--{flag}={wanted}")
    return wanted


def _add_xla_flags(*flags: str) -> None:
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()


LAUNCHERS: Mapping[Launch, Launcher] = {
    Launch.TORCHRUN: ProcessPerRank(),
    Launch.JAX: OneProcess(),
}


def launcher_of(spec: TrainerSpec) -> Launcher:
    """Return how a trainer's processes start."""
    return LAUNCHERS[spec.launch]


def run_settings(spec: TrainerSpec, config: Any) -> RunSettings:
    """Return a config in typed groups, its ranks left open where the config leaves them open."""
    return spec.settings(config, 0)
