"""The space of configs: knobs with options, and candidates with one option of each knob."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.schema.record import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting of a knob; without keys it is the default.

    same_as  other values with the same effect
    world    the world in which it runs, if it is not the default's
    work     useful FLOP of a step over the default's; seconds are compared for the same work
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    same_as: tuple[Any, ...] = ()
    world: World | None = None
    work: float = 1.0

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Return the identity of the option: its keys with their values."""
        return tuple((key, repr(value)) for key, value in self.keys.items())

    @property
    def label(self) -> str:
        """Return the option as text, such as ``micro_batch 2, accumulate 2``."""
        return (
            ", ".join(
                f"{key.rpartition('.')[2]} {_as_text(value)}" for key, value in self.keys.items()
            )
            or "default"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A knob with its options; the first option is the default."""

    name: str
    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        if not self.options or self.options[0].keys:
            raise ValueError(f"the first option of the knob {self.name} must be the default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One option of each knob, by the knob's name."""

    options: Mapping[str, Option]

    @property
    def keys(self) -> dict[str, Any]:
        """Return every dotted key that differs from the default config."""
        return {
            key: value for option in self.options.values() for key, value in option.keys.items()
        }

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Return the identity of the candidate: all keys with their values, sorted."""
        return tuple(sorted((key, repr(value)) for key, value in self.keys.items()))

    @property
    def changed(self) -> tuple[str, ...]:
        """Return the knobs that are not at their default."""
        return tuple(name for name, option in self.options.items() if option.keys)

    @property
    def world(self) -> World | None:
        """Return the world in which it runs, if it is not the default's."""
        return next(
            (option.world for option in self.options.values() if option.world is not None), None
        )

    @property
    def work(self) -> float:
        """Return the useful FLOP of a step over the default's."""
        product = 1.0
        for option in self.options.values():
            product *= option.work
        return product

    @property
    def label(self) -> str:
        """Return the candidate as text."""
        return "; ".join(self.options[name].label for name in self.changed) or "default"

    def without(self, name: str) -> "Candidate":
        """Return the candidate with one knob back at its default."""
        return Candidate(options={**self.options, name: Option()})

    def with_option(self, name: str, option: Option) -> "Candidate":
        """Return the candidate with another option of one knob."""
        return Candidate(options={**self.options, name: option})


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(f"{v:g}" for v in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def default_of(knobs: Sequence[Knob]) -> Candidate:
    """Return the candidate that changes nothing."""
    return Candidate(options={knob.name: knob.options[0] for knob in knobs})


def combinations(knobs: Sequence[Knob], *, most: int) -> Iterator[Candidate]:
    """Yield every candidate; `PlanError` if there are more than `most`."""
    count = 1
    for knob in knobs:
        count *= len(knob.options)
    if count > most:
        sizes = " x ".join(f"{knob.name}:{len(knob.options)}" for knob in knobs)
        raise PlanError(
            f"the space has {count} candidates ({sizes}), more than {most}",
            hint="weigh fewer knobs with --only, or leave the shapes out with --keep-shapes",
        )
    for options in itertools.product(*(knob.options for knob in knobs)):
        yield Candidate(
            options={knob.name: option for knob, option in zip(knobs, options, strict=True)}
        )
