"""What is tuned: a trainer's config in a world, and what may be changed about it. One job for every trainer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema.model import ModelDescription
from mi300bench.schema.record import Scalar, World
from mi300bench.schema.run_settings import RunSettings
from mi300bench.schema.trainer import Effect, KnobKind, KnobRequest, KnobSpec, TrainerSpec

# Two pairs of runs agree by chance too often; three rarely do.
FEWEST_ROUNDS = 3
# How far shapes may move the parameters, relative.
DEFAULT_TOLERANCE = 0.02
KEEPS_SHAPES = "shapes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A trainer's config in a world, how it is confirmed, and what limits the search.

    world            ranks with a process each, or the devices of a mesh, as the trainer's strategy has it
    memory_limit     bytes a rank or device; None where no limit is known
    may_regroup      ranks and threads may be chosen too
    keep_shapes      leave the model's shapes, or the length of sequences, alone
    param_tolerance  how far shapes may move the active and the total parameters, relative
    precisions       to weigh beside the config's own
    only             knobs to weigh; all where it is empty
    """

    spec: TrainerSpec
    config: Any
    world: World
    rounds: int = FEWEST_ROUNDS
    candidates: int = 2
    memory_limit: float | None = None
    may_regroup: bool = False
    keep_shapes: bool = False
    param_tolerance: float = DEFAULT_TOLERANCE
    precisions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rounds < FEWEST_ROUNDS or self.candidates < 1:
            raise PlanError(
                f"{self.rounds} rounds of {self.candidates} candidate(s) confirm nothing",
                hint=f"--rounds of at least {FEWEST_ROUNDS}, --candidates of at least 1; "
                "or --no-confirm with tune",
            )
        unknown = [name for name in self.only if name not in self.spec.knob_names]
        if unknown:
            raise PlanError(
                f"{self.spec.name} has no knob {unknown[0]!r}",
                hint=f"--only with some of {', '.join(self.spec.knob_names)}",
            )
        if not 0 < self.param_tolerance < 0.5:
            raise PlanError(
                f"--param-tolerance must be between 0 and 0.5 (got {self.param_tolerance:g})",
                hint="--param-tolerance 0.02",
            )
        if self.memory_limit is not None and self.memory_limit <= 0:
            raise PlanError(
                f"--memory-limit must be over 0 bytes (got {self.memory_limit:g})",
                hint="--memory-limit 16GiB",
            )

        mesh = self.settings.mesh
        if mesh is not None and mesh.devices != self.world.ranks:
            raise PlanError(
                f"a mesh of {mesh} does not cover {self.world.ranks} devices",
                hint="--ranks, or another mesh",
            )

    @property
    def trainer(self) -> str:
        """Return the trainer's name."""
        return self.spec.name

    @property
    def settings(self) -> RunSettings:
        """Return the default config in typed groups."""
        return self.spec.settings(self.config, self.world.ranks)

    @property
    def described(self) -> ModelDescription:
        """Return the default's model as numbers."""
        return self.spec.describe(self.config)

    def weighs(self, knob: str) -> bool:
        """Return whether `knob` is to be weighed."""
        is_kept = knob == KEEPS_SHAPES and self.keep_shapes
        return (not self.only or knob in self.only) and not is_kept

    def weighed(self, *kinds: KnobKind) -> Sequence[KnobSpec]:
        """Return the knobs of these kinds that are to be weighed."""
        return [k for k in self.spec.knobs if k.kind in kinds and self.weighs(k.name)]

    def with_keys(self, keys: Mapping[str, Any]) -> Any:
        """Return the trainer's config with `keys` set; `PlanError` where it cannot have them."""
        return self.spec.override(self.config, keys)

    def is_possible(self, keys: Mapping[str, Any]) -> bool:
        """Return whether the config can have `keys`: a mesh has to divide the batch."""
        try:
            self.with_keys(keys)
        except PlanError:
            return False
        return True

    def settings_with(self, keys: Mapping[str, Any]) -> RunSettings:
        """Return the config with `keys` set, in typed groups."""
        return self.spec.settings(self.with_keys(keys), self.world.ranks)

    def work_of(self, keys: Mapping[str, Any]) -> float:
        """Return the useful FLOP of a step with `keys` over the default's, at the same tokens."""
        described = self.spec.describe(self.with_keys(keys))
        return described.flop_per_token / self.described.flop_per_token

    def request(self, *, is_short_of_memory: bool) -> KnobRequest:
        """Return what the options of the trainer's knobs depend on."""
        return KnobRequest(
            config=self.config,
            ranks=self.world.ranks,
            is_short_of_memory=is_short_of_memory,
            precisions=self.precisions,
            param_tolerance=self.param_tolerance,
        )

    def point_params(self, config: Any, changed: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the parameters of a point that runs `config` with the `changed` keys."""
        return self.spec.point_params(config, changed)

    def affects_memory(self, knob: str) -> bool:
        """Return whether a knob changes what a rank or device holds."""
        return Effect.MEMORY in self.spec.knob(knob).affects
