"""How the processes of a trainer start. Its spec declares which way.

ProcessPerRank  torch: one process for each rank, started by torchrun or another launcher
OneProcess      JAX: one process for all devices of the machine
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
    """A way to start the processes of a training run."""

    @abc.abstractmethod
    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return the world to train in. `ranks` is the number that the user gave, or None."""

    @abc.abstractmethod
    def needs_ranks(self, world: World) -> bool:
        """Return whether the ranks of `world` must be started first."""

    def require(self, world: World) -> None:
        """Raise `PlanError` if an external launcher started other ranks than those of `world`."""
        del world  # by default any world is accepted

    def prepare(self, run: RunSettings, kind: str, settings: Settings) -> Settings:
        """Set the variables that the framework reads at its start; return the updated settings."""
        return settings


@final
class ProcessPerRank(Launcher):
    """One process for each rank: we start them on one machine, an external launcher on several."""

    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return the world with `ranks`, or else with the ranks of the launcher or the config.

        Without any of these there is one rank for each device.
        """
        configured = run.ranks
        if ranks is None and not is_joined() and configured is not None and configured.ranks:
            return local_topology(kind, configured.ranks, threads=configured.threads)
        return local_topology(kind, ranks if ranks is not None else default_ranks(kind))

    def needs_ranks(self, world: World) -> bool:
        """Return whether the world has several ranks and no launcher has started them."""
        return world.ranks > 1 and not is_joined()

    def require(self, world: World) -> None:
        """Raise `PlanError` if the launcher started another number of ranks."""
        if is_joined() and launched_ranks() != world.ranks:
            raise PlanError(
                f"--ranks {world.ranks} differs from the {launched_ranks()} ranks of the launcher",
                hint="omit --ranks, or start the launcher with as many ranks",
            )


@final
class OneProcess(Launcher):
    """One process for all devices of a machine. On a CPU the devices are virtual."""

    def world(self, kind: str, ranks: int | None, run: RunSettings) -> World:
        """Return a world of one process. The mesh sets the devices, so `ranks` must be None."""
        if ranks is not None:
            raise PlanError(
                f"--ranks {ranks} does not apply: one process trains on all devices of the mesh",
                hint=f"omit --ranks and set the mesh, such as --set mesh.fsdp={ranks}",
            )
        return local_topology(kind, 1)

    def needs_ranks(self, world: World) -> bool:
        """Return False: there is only this process."""
        return False

    def prepare(self, run: RunSettings, kind: str, settings: Settings) -> Settings:
        """Set the variables of JAX that the config implies; keep those that are set already."""
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


def _virtual_devices(default: int) -> int:
    """Return the number of virtual devices that the environment sets; if none, set `default`."""
    flag = "xla_force_host_platform_device_count"
    given = re.search(rf"{flag}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    if given is not None:  # for each process, if a launcher started several
        return int(given.group(1))
    if default > 1:
        _add_xla_flags(f"--{flag}={default}")
    return default


def _add_xla_flags(*flags: str) -> None:
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()


LAUNCHERS: Mapping[Launch, Launcher] = {
    Launch.TORCHRUN: ProcessPerRank(),
    Launch.JAX: OneProcess(),
}


def launcher_of(spec: TrainerSpec) -> Launcher:
    """Return the launcher of a trainer."""
    return LAUNCHERS[spec.launch]


def run_settings(spec: TrainerSpec, config: Any) -> RunSettings:
    """Return the typed settings of a config; its ranks are 0 if the config does not set them."""
    return spec.settings(config, 0)
