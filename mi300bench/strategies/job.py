"""What is tuned: a trainer's config in a world, and what may be changed about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.measurement.local_topology import cores
from mi300bench.schema.record import Scalar, World
from mi300bench.strategies.ddp.predictor import ACCUMULATE, KNOBS, RANKS, THREADS, Layout, layouts
from mi300bench.trainers import registry

# Two pairs of runs agree by chance too often; three rarely do.
FEWEST_ROUNDS = 3


def require_confirming(*, rounds: int, candidates: int) -> None:
    """Raise where so few runs of so few candidates confirm nothing."""
    if rounds < FEWEST_ROUNDS or candidates < 1:
        raise PlanError(
            f"{rounds} rounds of {candidates} candidate(s) confirm nothing",
            hint=f"--rounds of at least {FEWEST_ROUNDS}, --candidates of at least 1; or --no-confirm with tune",
        )


def require_known(only: Sequence[str], knobs: Sequence[str]) -> None:
    """Raise where a knob of `only` is none of `knobs`."""
    unknown = [name for name in only if name not in knobs]
    if unknown:
        raise PlanError(
            f"there is no knob {unknown[0]!r}", hint=f"--only with some of {', '.join(knobs)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A trainer's config in a world, how it is confirmed, and what limits the search.

    `memory_limit` is bytes a rank, None for no limit known. `may_regroup`: whether ranks and threads may be chosen.
    `param_tolerance` is relative to the active and to the total parameters. `precisions` are to be weighed beside the config's own.
    `only` names the knobs to weigh, all where it is empty.
    """

    trainer: str
    config: Any
    world: World
    rounds: int = 3
    candidates: int = 2
    memory_limit: float | None = None
    may_regroup: bool = False
    keep_shapes: bool = True
    param_tolerance: float = 0.02
    precisions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_confirming(rounds=self.rounds, candidates=self.candidates)
        require_known(self.only, KNOBS)
        if not 0 < self.param_tolerance < 0.5:
            raise PlanError(
                f"a tolerance of {self.param_tolerance:g} of the parameters is no tolerance",
                hint="--param-tolerance 0.02",
            )
        if self.memory_limit is not None and self.memory_limit <= 0:
            raise PlanError(
                f"{self.memory_limit:g} bytes hold no model", hint="--memory-limit 16GiB"
            )

    def weighs(self, knob: str) -> bool:
        """Return whether `knob` is to be weighed."""
        return (not self.only or knob in self.only) and not (knob == "shapes" and self.keep_shapes)

    @property
    def layout(self) -> Layout:
        """Return the default layout of the global batch."""
        data = self.config.data
        return Layout(world=self.world, micro_batch=data.micro_batch, accumulate=data.accumulate)

    @property
    def global_batch(self) -> int:
        """Return the sequences of one step over all ranks."""
        return self.layout.micro_batch * self.layout.accumulate * self.world.ranks

    def layouts(self) -> list[Layout]:
        """Return the ways to share the global batch out, the default first."""
        if not self.weighs("batch"):
            return [self.layout]
        worlds = [self.world]
        if self.may_regroup and self.world.device == "cpu" and self.world.ranks > 1:
            worlds.append(World(device="cpu", ranks=1, threads=cores()))
        return layouts(global_batch=self.global_batch, default=self.layout, worlds=worlds)

    def params(self, layout: Layout, **keys: Scalar) -> dict[str, Scalar]:
        """Return the parameters of a point that trains one micro-batch of `layout` with other `keys` set."""
        data = self.config.data
        return {
            "preset": self.config.preset,
            "data.seq_len": data.seq_len,
            "data.micro_batch": layout.micro_batch,
        } | keys

    def step_params(self, keys: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return the parameters of a point that trains whole steps, accumulation included, with `keys` set."""
        whole = {ACCUMULATE: self.layout.accumulate} | {
            name: v for name, v in keys.items() if name not in (RANKS, THREADS)
        }
        params: dict[str, Scalar] = registry.module(self.trainer, "config").point_params(
            self.config, whole
        )
        return params

    def with_keys(self, keys: dict[str, Any]) -> Any:
        """Return the trainer's config with `keys` set."""
        return registry.module(self.trainer, "config").override_all(self.config, keys)
