"""What must not change between two versions: the figures, choices and evidence of a config and of a report, without their words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mi300bench.schema.config import TunedConfig
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement

# Published and compiled records are made anew by each version: what they are of identifies them, not their ids.
MADE_ANEW = (".plan",)


def named(records: Iterable[Measurement]) -> dict[str, tuple[Any, ...]]:
    """Return what each record is of, by its id."""
    return {
        record.id: (
            record.probe,
            tuple(sorted(record.params.items())),
            record.pass_index,
            record.world,
        )
        for record in records
    }


def _interval(interval: Interval | None) -> Any:
    if interval is None:
        return None
    return tuple(f"{value:.9g}" for value in (interval.low, interval.mid, interval.high))


def of_config(tuned: TunedConfig, names: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the config, its choices with alternatives and evidence, and what fresh runs gave."""
    confirmed = tuned.confirmed
    return {
        "trainer": tuned.trainer,
        "config": tuned.config,
        "ranks": tuned.ranks,
        "origin": (tuned.origin, tuned.source),
        "environment": tuned.environment,
        "choices": {
            key: {
                "value": choice.value,
                "default": choice.default,
                "alternatives": [
                    (a.value, _interval(a.predicted_s), list(a.same_as))
                    for a in choice.alternatives
                ],
                "evidence": [names[identity] for identity in choice.evidence],
                "doubts": len(choice.doubts),
            }
            for key, choice in tuned.choices.items()
        },
        "confirmed": confirmed
        and {
            "verdict": str(confirmed.verdict),
            "runs": confirmed.runs,
            "ratio": _interval(confirmed.ratio),
            "seconds": (_interval(confirmed.default_s), _interval(confirmed.tuned_s)),
            "evidence": [names[identity] for identity in confirmed.evidence],
            "sides": [
                (
                    side.label,
                    side.reverts,
                    _interval(side.predicted_s),
                    _interval(side.measured_s),
                    _interval(side.ratio),
                    _interval(side.over_best),
                    [names[identity] for identity in side.evidence],
                )
                for side in confirmed.sides
            ],
        },
    }


def of_page(page: Any) -> dict[str, Any]:
    """Return, by section, its table's figures and ids, its evidence, and the figures in its sentences."""
    return {
        section.anchor: {
            "rows": [_figures(row) for row in section.table.rows] if section.table else [],
            "evidence": list(section.evidence),
            "sentences": sorted(_figures(section.sentences)),
        }
        for section in page.sections
    }


def _figures(texts: Sequence[str]) -> list[str]:
    """Return the numbers and record ids in some texts, in order."""
    return [
        figure
        for text in texts
        for figure in re.findall(
            r"\b[0-9a-f]{12}\b|\d+(?:\.\d+)?", str(text).replace("mi300bench", "")
        )
    ]
