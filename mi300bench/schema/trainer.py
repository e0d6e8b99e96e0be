"""What a trainer declares. The library reads these declarations and never a trainer's config.

To add a knob, change the trainer's code and declare a `KnobSpec` in its `spec.py`. To add a trainer
of a known strategy, write its `spec.py` and add it to `mi300bench.probes.catalog.TRAINERS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from mi300bench.errors import PlanError
from mi300bench.schema import config_tree
from mi300bench.schema.model import Gemm, MemoryNeed, MeshTraffic, ModelDescription
from mi300bench.schema.probe import ProbeEntry
from mi300bench.schema.record import Scalar
from mi300bench.schema.run_settings import RunSettings


class Effect(StrEnum):
    """What a knob changes."""

    TIME = "time"
    MEMORY = "memory"
    QUALITY = "quality"


class KnobKind(StrEnum):
    """How the effect of an option on a step is determined."""

    RUN = "run"  # by running a step with the option's keys set
    PRODUCTS = "products"  # by the fit of matrix products, for another shape of the model
    LAYOUT = "layout"  # by the strategy ddp, for another split of the global batch
    BUCKETS = "buckets"  # by the strategy ddp, for another packing of the gradients
    MESH = "mesh"  # by the strategy mesh, for another arrangement of the devices


class Launch(StrEnum):
    """How a trainer's processes start."""

    TORCHRUN = "torchrun"  # a process for each rank
    JAX = "jax"  # one process for all devices of a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRequest:
    """The input for the options of a knob.

    `is_short_of_memory`: the default is near the memory limit.
    """

    config: Any
    ranks: int
    is_short_of_memory: bool
    precisions: tuple[str, ...]
    param_tolerance: float


Keys = Mapping[str, Any]


def _no_options(_: KnobRequest) -> Sequence[Keys]:
    """Return no option, for a knob whose options come from the strategy."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobSpec:
    """One setting that can be tuned.

    keys               the dotted keys that its options set
    options            the options other than the default, each as keys with values; only of the
                       kinds `RUN` and `PRODUCTS`
    affects            what an option changes; candidates that differ only in knobs without effect
                       on memory need the same memory
    saves_memory       its purpose is to make a config fit into memory: memory records are part of
                       its evidence, and an option that was not measured is weighed by its FLOP
    flop_factor        FLOP of a step with the new value over those with the old one, as a function
                       of (old, new); None if FLOP do not predict the time
    computes_least     the value without recomputation, if other values recompute
    doubt              the doubt about an option; names in braces are readings of the trainer
    is_always_doubted  the doubt also holds for the default
    """

    name: str
    kind: KnobKind
    keys: tuple[str, ...]
    affects: frozenset[Effect]
    options: Callable[[KnobRequest], Sequence[Keys]] = _no_options
    saves_memory: bool = False
    flop_factor: Callable[[Any, Any], float] | None = None
    computes_least: Any = None
    doubt: str = ""
    is_always_doubted: bool = False


class DataParallelModel(Protocol):
    """What the strategy ddp needs of a model."""

    def memory(self, config: Any, *, ranks: int, readings: Mapping[str, float]) -> MemoryNeed:
        """Return the peak memory of a rank's tensors."""


class MeshModel(Protocol):
    """What the strategy mesh needs of a model."""

    def divides(self, config: Any) -> bool:
        """Return whether the config's mesh divides every tensor, by the sharding rules."""

    def products(self, config: Any) -> tuple[Gemm, ...]:
        """Return the forward products of one device."""

    def held_bytes(self, config: Any) -> float:
        """Return a lower bound of the bytes that a device needs."""

    def traffic(self, config: Any) -> MeshTraffic:
        """Return the communication of a step."""

    def closed_form_bytes(self, config: Any) -> Mapping[str, float]:
        """Return the bytes that a device receives in a step: gathered, reduced, gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSpec:
    """A trainer, as the library knows it. Nothing here needs a framework.

    framework        the package that its code needs: torch or jax
    package          the package of its code; its module ``train`` has `main` and `preflight`
    presets          configs by name
    default_presets  the default preset for each kind of device (``cpu``, ``cuda``, ``rocm``)
    parts            the types of its config's tables, by name
    options          the keys of the config that options of the command line set, by option
    point_keys       keys that are parameters of every point of this trainer
    knobs            what can be tuned, in the order in which it is weighed
    probes           what can be measured, by name: ``step``, and what the strategy needs
    describe         returns the model as numbers
    counts           returns the numbers of parameters by kind
    settings         returns a config in the groups that exporters and strategies read, for the
                     given number of ranks
    as_param         functions that convert a value that is not a scalar to a parameter and back,
                     by key
    readings         series of its timeline that its memory model and doubts use; their mean counts
    planner          module that compiles a step without weights, or empty
    planned_keys     keys that identify a compiled step
    """

    name: str
    framework: str
    launch: Launch
    strategy: str
    package: str
    summary: str
    presets: Mapping[str, Any]
    default_presets: Mapping[str, str]
    config_type: type[Any]
    parts: Mapping[str, type[Any]]
    options: Mapping[str, str]
    point_keys: tuple[str, ...]
    knobs: tuple[KnobSpec, ...]
    probes: Mapping[str, ProbeEntry]
    describe: Callable[[Any], ModelDescription]
    counts: Callable[[Any], Mapping[str, int]]
    settings: Callable[[Any, int], RunSettings]
    as_param: Mapping[str, tuple[Callable[[Any], Scalar], Callable[[Scalar], Any]]] = field(
        default_factory=dict
    )
    readings: tuple[str, ...] = ()
    data_parallel: DataParallelModel | None = None
    mesh_model: MeshModel | None = None
    planner: str = ""
    planned_keys: tuple[str, ...] = ()

    @property
    def knob_names(self) -> tuple[str, ...]:
        """Return the names of the knobs, in their order."""
        return tuple(knob.name for knob in self.knobs)

    @property
    def has_model_shapes(self) -> bool:
        """Return whether the model's own shapes are a knob."""
        return any(knob.kind is KnobKind.PRODUCTS for knob in self.knobs)

    def preset(self, name: str) -> Any:
        """Return a preset; `PlanError` lists the known names."""
        if name not in self.presets:
            raise PlanError(
                f"{self.name} has no preset {name!r}",
                hint=f"choose one of {', '.join(self.presets)}",
            )
        return self.presets[name]

    def to_tables(self, config: Any) -> dict[str, Any]:
        """Return a config as nested plain tables, complete."""
        return config_tree.to_tables(config)

    def from_tables(self, tables: Mapping[str, Any]) -> Any:
        """Return the config of complete tables; `PlanError` names a missing or unknown key."""
        return config_tree.build(self.config_type, self.parts, tables)

    def override(self, config: Any, keys: Mapping[str, Any]) -> Any:
        """Return `config` with all `keys` set at once, so that only the result is checked."""
        return config_tree.override(self.name, config, self.parts, keys)

    def value_of(self, config: Any, key: str) -> Any:
        """Return the value of a dotted key."""
        part, _, name = key.rpartition(".")
        return getattr(getattr(config, part) if part else config, name)

    def point_params(self, config: Any, changed: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the parameters of a point that runs `config`: a preset with `changed` keys."""
        always = {key: self.value_of(config, key) for key in self.point_keys}
        written = {
            key: self.as_param[key][0](value) if key in self.as_param else value
            for key, value in changed.items()
        }
        return {"preset": config.preset, **always, **written}

    def from_params(self, params: Mapping[str, Scalar]) -> Any:
        """Return the config of a point's parameters: a preset, with keys set in it."""
        keys = {
            key: self.as_param[key][1](value) if key in self.as_param else value
            for key, value in params.items()
            if key != "preset"
        }
        return self.override(self.preset(str(params["preset"])), keys)

    def knob(self, name: str) -> KnobSpec:
        """Return a knob by name."""
        return next(knob for knob in self.knobs if knob.name == name)
