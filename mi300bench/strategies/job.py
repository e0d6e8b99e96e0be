"""What is tuned: a trainer's config in a world, and what may be changed about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema.model import ModelDescription
from mi300bench.schema.record import Scalar, World
from mi300bench.schema.run_settings import RunSettings
from mi300bench.schema.trainer import Effect, KnobKind, KnobRequest, KnobSpec, TrainerSpec

# Two pairs of runs often agree by chance; three rarely do.
FEWEST_ROUNDS = 3
# The largest relative change of the parameters by another shape.
DEFAULT_TOLERANCE = 0.02
KEEPS_SHAPES = "shapes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A trainer's config in a world, how the pick is confirmed, and the limits of the search.

    world            the ranks with a process each, or the devices of a mesh
    rounds           fresh runs of each arm
    candidates       arms other than the default, where the pick has no ablations
    memory_limit     bytes of a rank or device; None if no limit is known
    may_regroup      ranks and threads may be changed too
    keep_shapes      do not tune the model's shapes or the sequence length
    param_tolerance  largest relative change of the active and of the total parameters by a shape
    precisions       to weigh in addition to the config's own
    only             knobs to weigh; all if empty
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
        for option, value, least in (
            ("rounds", self.rounds, FEWEST_ROUNDS),
            ("candidates", self.candidates, 1),
        ):
            if value < least:
                raise PlanError(
                    f"--{option} must be at least {least} (got {value})",
                    hint=f"give --{option} {least}, or tune with --no-confirm",
                )
        unknown = [name for name in self.only if name not in self.spec.knob_names]
        if unknown:
            raise PlanError(
                f"{self.spec.name} has no knob {unknown[0]!r}",
                hint=f"give --only one or more of {', '.join(self.spec.knob_names)}",
            )
        if not 0 < self.param_tolerance < 0.5:
            raise PlanError(
                f"--param-tolerance must be between 0 and 0.5 (got {self.param_tolerance:g})",
                hint=f"give --param-tolerance {DEFAULT_TOLERANCE:g}, which is the default",
            )
        if self.memory_limit is not None and self.memory_limit <= 0:
            raise PlanError(
                f"--memory-limit must be over 0 bytes (got {self.memory_limit:g})",
                hint="give --memory-limit 16GiB, or leave it out to use the device's memory",
            )

        mesh = self.settings.mesh
        if mesh is not None and mesh.devices != self.world.ranks:
            raise PlanError(
                f"the mesh {mesh} (dp, fsdp, mp) has {mesh.devices} devices, but the job has "
                f"{self.world.ranks}",
                hint=f"give --ranks {mesh.devices}, or a mesh of {self.world.ranks} devices",
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
        """Return the trainer's config with `keys` set; `PlanError` for impossible values."""
        return self.spec.override(self.config, keys)

    def is_possible(self, keys: Mapping[str, Any]) -> bool:
        """Return whether the config accepts `keys`; a mesh has to divide the batch, for example."""
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
        """Return the input for the options of the trainer's knobs."""
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
        """Return whether a knob changes the memory of a rank or device."""
        return Effect.MEMORY in self.spec.knob(knob).affects
