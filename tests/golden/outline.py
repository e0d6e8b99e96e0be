"""What must not change between two versions of a config and of a report.

These are figures, choices and evidence. Words may change.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mi300bench.schema.config import TunedConfig
from mi300bench.schema.model import Interval
from mi300bench.schema.record import Measurement

# Each version makes published and compiled records again; their content identifies them, not ids.
MADE_ANEW = (".plan",)


def named(records: Iterable[Measurement]) -> dict[str, tuple[Any, ...]]:
    """Return what identifies each record between versions, by its id."""
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
    """Return the config, its choices with alternatives and evidence, and its fresh runs."""
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
                    arm.label,
                    arm.reverts,
                    _interval(arm.predicted_s),
                    _interval(arm.measured_s),
                    _interval(arm.ratio),
                    _interval(arm.over_best),
                    [names[identity] for identity in arm.evidence],
                )
                for arm in confirmed.sides
            ],
        },
    }


def of_page(page: Any) -> dict[str, Any]:
    """Return the figures and record ids of each section's table and sentences, and its evidence."""
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
