"""What a trainer declares. The library asks these questions and never looks into a trainer's config.

A new knob of a trainer is a `KnobSpec` in its `spec.py` and the trainer's code. A new trainer of a known strategy is its
`spec.py` and one line in `mi300bench.trainers.registry`.
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
    """How it is known what an option does to a step."""

    RUN = "run"  # a step is run with the option's keys set
    PRODUCTS = "products"  # the fit of matrix products predicts another shape of the model
    LAYOUT = "layout"  # strategy ddp: the global batch shared out in another way
    BUCKETS = "buckets"  # strategy ddp: another packing of the gradients
    MESH = "mesh"  # strategy mesh: another arrangement of the devices


class Launch(StrEnum):
    """How a trainer's processes start."""

    TORCHRUN = "torchrun"  # a process a rank
    JAX = "jax"  # one process for all devices of a machine


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRequest:
    """What the options of a knob depend on. `is_short_of_memory`: the default comes near the memory limit."""

    config: Any
    ranks: int
    is_short_of_memory: bool
    precisions: tuple[str, ...]
    param_tolerance: float


Keys = Mapping[str, Any]


def _no_options(_: KnobRequest) -> Sequence[Keys]:
    """Return no option: those of this knob come from the strategy."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobSpec:
    """One thing that can be set.

    keys            the dotted keys that its options set
    options         the options beside the default, each as keys with values; of the kinds `RUN` and `PRODUCTS`
    affects         what an option changes; candidates that differ in nothing that affects memory need the same memory
    saves_memory    it is there to make a config fit: memory records are part of its evidence, and an option that nobody
                    ran is weighed by its FLOP
    flop_factor     FLOP of a step with a value over those with another (old, new); None where FLOP do not tell its time
    computes_least  the value with which nothing is computed again, where other values compute something again
    doubt           what to doubt once the knob leaves its default; names in braces are readings of the trainer
    is_always_doubted  the doubt holds for the default as well
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
    """What the strategy ddp asks of a model."""

    def memory(self, config: Any, *, ranks: int, readings: Mapping[str, float]) -> MemoryNeed:
        """Return the peak of a rank's tensors in bytes."""


class MeshModel(Protocol):
    """What the strategy mesh asks of a model."""

    def divides(self, config: Any) -> bool:
        """Return whether the config's mesh divides every tensor as the sharding rules cut it."""

    def products(self, config: Any) -> tuple[Gemm, ...]:
        """Return the forward products of one device."""

    def held_bytes(self, config: Any) -> float:
        """Return the bytes that a device holds at least."""

    def traffic(self, config: Any) -> MeshTraffic:
        """Return what a step exchanges."""

    def closed_form_bytes(self, config: Any) -> Mapping[str, float]:
        """Return the bytes that a device receives in a step, by kind: gathered, reduced, gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSpec:
    """A trainer, as the library knows it. Nothing here needs a framework.

    package        where its code is; `train` and `preflight` are functions of its module ``train``
    presets        configs by name; `default_presets` names one for each kind of device (``cpu``, ``cuda``, ``rocm``)
    parts          the tables of its config, by name
    options        the command line's options of a job, by the key of the config that each sets
    point_keys     keys that are parameters of every point of this trainer
    as_param       values that are no scalar, as a parameter and back, by key
    probes         what can be measured of it, by name: ``step``, and what its strategy asks for
    describe       the model as numbers
    counts         parameters by kind, for a person
    settings       a config in the groups that exporters and strategies read, for so many ranks
    readings       series of its timeline that its memory and its doubts depend on; their mean is used
    planner        module that compiles a step without weights, or empty; `planned_keys` identify such a step
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
        """Return the names of the knobs, in the order in which they are weighed."""
        return tuple(knob.name for knob in self.knobs)

    @property
    def has_model_shapes(self) -> bool:
        """Return whether the model's own shapes are a knob."""
        return any(knob.kind is KnobKind.PRODUCTS for knob in self.knobs)

    def preset(self, name: str) -> Any:
        """Return a preset; an unknown name lists the known."""
        if name not in self.presets:
            raise PlanError(
                f"{self.name} has no preset {name!r}", hint=f"one of {', '.join(self.presets)}"
            )
        return self.presets[name]

    def to_tables(self, config: Any) -> dict[str, Any]:
        """Return a config as nested plain tables, complete."""
        return config_tree.to_tables(config)

    def from_tables(self, tables: Mapping[str, Any]) -> Any:
        """Return the config of complete tables; `PlanError` names what is missing or unknown."""
        return config_tree.build(self.config_type, self.parts, tables)

    def override(self, config: Any, keys: Mapping[str, Any]) -> Any:
        """Return `config` with all `keys` set at once: the parts are checked as they will be."""
        return config_tree.override(self.name, config, self.parts, keys)

    def value_of(self, config: Any, key: str) -> Any:
        """Return the value of a dotted key."""
        part, _, name = key.rpartition(".")
        return getattr(getattr(config, part) if part else config, name)

    def point_params(self, config: Any, changed: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the parameters of a point that runs `config`, a preset with `changed` keys."""
        always = {key: self.value_of(config, key) for key in self.point_keys}
        written = {
            key: self.as_param[key][0](value) if key in self.as_param else value
            for key, value in changed.items()
        }
        return {"preset": config.preset, **always, **written}

    def from_params(self, params: Mapping[str, Scalar]) -> Any:
        """Return the config that a point's parameters describe: a preset, and keys set in it."""
        keys = {
            key: self.as_param[key][1](value) if key in self.as_param else value
            for key, value in params.items()
            if key != "preset"
        }
        return self.override(self.preset(str(params["preset"])), keys)

    def knob(self, name: str) -> KnobSpec:
        """Return a knob by name."""
        return next(knob for knob in self.knobs if knob.name == name)
