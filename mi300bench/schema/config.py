"""The tuned config: what a trainer reads, and the reason for each tuned value.

`[config]` is the complete config of the trainer. Each choice names the records behind it; a choice
without records cannot be written. `[confirmed]` has the results of the fresh runs.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from mi300bench.errors import PlanError, RecordError
from mi300bench.schema.model import Interval

FORMAT = 2
# The formats that this version reads.
READABLE = (1, FORMAT)
# Trainers read this word as the framework's default, because TOML has no null.
FRAMEWORK_DEFAULT = "default"


class Confirmation(StrEnum):
    """The verdict of fresh runs on the best candidate, against the default."""

    FASTER = "faster"
    SAME = "same"
    SLOWER = "slower"
    CANNOT_TELL = "cannot tell"
    NOT_HERE = "not confirmable here"


class ChoiceBasis(StrEnum):
    """What a choice rests on."""

    CONFIRMED = "confirmed"  # judged by fresh runs
    PREDICTED = "predicted"  # by fits only; there were no fresh runs, or they cannot show it here
    DERIVED = "derived"  # computed from a curve or a compiled step, not run


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A weighed option, with the predicted seconds of a step."""

    value: Any
    predicted_s: Interval
    same_as: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One tuned key: value, default, reason, records, alternatives and doubts."""

    value: Any
    default: Any
    why: str
    evidence: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()
    doubts: tuple[str, ...] = ()
    basis: ChoiceBasis = ChoiceBasis.CONFIRMED

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(
                f"the choice {self.value!r} names no record, but every choice needs evidence"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedArm:
    """One arm: its predicted and its measured seconds for the default's useful work in a step.

    ratio      of its step over the default's, from interleaved runs
    reverts    the knob that an ablation puts back to its default, else empty
    over_best  of an ablation: its step over the predicted best's; over 1, the knob's change pays
    """

    label: str
    predicted_s: Interval
    measured_s: Interval
    ratio: Interval
    verdict: str
    reverts: str = ""
    over_best: Interval | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The seconds of a step in fresh interleaved runs, and the verdict.

    candidate  the best arm other than the default, picked or not
    tuned_s    of the pick, which can be the default
    ratio      of the candidate's step over the default's; the verdict is about it
    sides      all arms
    """

    candidate: str
    default_s: Interval
    tuned_s: Interval
    ratio: Interval
    runs: int
    verdict: Confirmation
    evidence: tuple[str, ...]
    sides: tuple[ConfirmedArm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedConfig:
    """A trainer's config with its evidence."""

    trainer: str
    config: Mapping[str, Any]
    choices: Mapping[str, Choice]
    confirmed: Confirmed | None = None
    node: str = ""
    device: str = ""
    device_kind: str = ""  # cpu, cuda or rocm
    ranks: int = 0  # of the world it was tuned for
    origin: str = "measured"
    source: str = ""
    made_by: str = ""
    environment: Mapping[str, str] = field(
        default_factory=dict
    )  # variables that were set while it was measured
    doubts: tuple[str, ...] = ()


def _interval(table: Mapping[str, float]) -> Interval:
    return Interval(low=table["low"], mid=table["mid"], high=table["high"])


def to_document(tuned: TunedConfig) -> dict[str, Any]:
    """Return the tables of the TOML file."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "trainer": tuned.trainer,
        "node": tuned.node,
        "device": tuned.device,
        "device_kind": tuned.device_kind,
        "ranks": tuned.ranks,
        "environment": dict(tuned.environment),
        "origin": tuned.origin,
        "source": tuned.source,
        "made_by": tuned.made_by,
        "doubts": list(tuned.doubts),
        "config": dict(tuned.config),
        "choices": {},
    }
    for key, choice in tuned.choices.items():
        document["choices"][key] = {
            "value": choice.value,
            "default": choice.default,
            "basis": str(choice.basis),
            "why": choice.why,
            "evidence": list(choice.evidence),
            "doubts": list(choice.doubts),
            "alternatives": [
                {"value": a.value, "predicted_s": asdict(a.predicted_s), "same_as": list(a.same_as)}
                for a in choice.alternatives
            ],
        }
    if tuned.confirmed is not None:
        document["confirmed"] = asdict(tuned.confirmed) | {
            "verdict": str(tuned.confirmed.verdict),
            "evidence": list(tuned.confirmed.evidence),
            "sides": [_arm_document(arm) for arm in tuned.confirmed.sides],
        }
    return document


def from_document(document: Mapping[str, Any], *, name: str) -> TunedConfig:
    """Return the config of a parsed TOML file; `RecordError` if it is not a tuned config."""
    if document.get("format") not in READABLE:
        raise RecordError(
            f"{name} has format {document.get('format')!r}, but this version reads formats "
            f"{READABLE[0]} to {FORMAT}",
            hint="write it again with: mi300bench tune",
        )
    try:
        return TunedConfig(
            trainer=document["trainer"],
            config=dict(document["config"]),
            choices={
                key: Choice(
                    value=table["value"],
                    default=table["default"],
                    why=table["why"],
                    evidence=tuple(table["evidence"]),
                    doubts=tuple(table.get("doubts", ())),
                    basis=_basis(table),
                    alternatives=tuple(
                        Alternative(
                            value=a["value"],
                            predicted_s=_interval(a["predicted_s"]),
                            same_as=tuple(a["same_as"]),
                        )
                        for a in table.get("alternatives", ())
                    ),
                )
                for key, table in document.get("choices", {}).items()
            },
            confirmed=_confirmed(document.get("confirmed")),
            **{
                key: document.get(key, "")
                for key in ("node", "device", "device_kind", "origin", "source", "made_by")
            },
            ranks=int(document.get("ranks", 0)),
            environment=dict(document.get("environment", {})),
            doubts=tuple(document.get("doubts", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise RecordError(
            f"{name} is not a tuned config: {type(cause).__name__}: {cause}",
            hint="write it again with: mi300bench tune",
        ) from cause


def _basis(table: Mapping[str, Any]) -> ChoiceBasis:
    """Return what a choice rests on; in format 1 only the sentence says it."""
    if "basis" in table:
        return ChoiceBasis(table["basis"])
    return ChoiceBasis.PREDICTED if "not confirm" in table["why"] else ChoiceBasis.CONFIRMED


def _confirmed(table: Mapping[str, Any] | None) -> Confirmed | None:
    if table is None:
        return None
    return Confirmed(
        candidate=table["candidate"],
        default_s=_interval(table["default_s"]),
        tuned_s=_interval(table["tuned_s"]),
        ratio=_interval(table["ratio"]),
        runs=table["runs"],
        verdict=Confirmation(table["verdict"]),
        evidence=tuple(table["evidence"]),
        sides=tuple(_arm(row) for row in table.get("sides", ())),
    )


def _arm_document(arm: ConfirmedArm) -> dict[str, Any]:
    document = asdict(arm) | {"evidence": list(arm.evidence)}
    return {key: value for key, value in document.items() if value is not None}


def _arm(table: Mapping[str, Any]) -> ConfirmedArm:
    over = table.get("over_best")
    return ConfirmedArm(
        label=table["label"],
        predicted_s=_interval(table["predicted_s"]),
        measured_s=_interval(table["measured_s"]),
        ratio=_interval(table["ratio"]),
        verdict=table["verdict"],
        reverts=table.get("reverts", ""),
        over_best=None if over is None else _interval(over),
        evidence=tuple(table.get("evidence", ())),
    )


def is_tuned_config(path: Path) -> bool:
    """Return whether a TOML file is a tuned config; a damaged one counts if it has choices."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    try:
        return "choices" in tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return "[choices" in text


def read(path: Path) -> TunedConfig:
    """Return the tuned config in `path`."""
    import tomllib

    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError as cause:
        raise PlanError(
            f"{path} does not exist", hint="write one with: mi300bench tune zaya1"
        ) from cause
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise RecordError(
            f"{path} cannot be read: {cause}", hint="write it again with: mi300bench tune"
        ) from cause
    return from_document(document, name=str(path))
