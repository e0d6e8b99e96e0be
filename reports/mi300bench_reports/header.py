"""What is above the sections: the machine, a warning, imported files, and the headline."""

from collections import Counter
from collections.abc import Sequence

from mi300bench.schema.config import Choice, ChoiceBasis, Confirmation, Confirmed, TunedConfig
from mi300bench.schema.record import Measurement, Origin

from mi300bench_reports import as_text
from mi300bench_reports.elements import Headline

# The first line names at most this many machines.
MOST_NAMED = 2
NOTHING_TO_SET = "nothing; keep the defaults"


def machines(records: Sequence[Measurement]) -> str:
    """Return the first line of the page: which machines it is about."""
    counts = Counter((record.node, record.device) for record in records)
    names = [f"{node}: {device or 'unknown device'}" for (node, device), _ in counts.most_common()]
    rest = len(names) - MOST_NAMED
    return "; ".join(names[:MOST_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def warning(records: Sequence[Measurement]) -> str:
    """Return which data no real machine gave; empty where all of it was measured."""
    artificial = {
        (str(record.origin), record.source)
        for record in records
        if record.origin not in (Origin.MEASURED, Origin.IMPORTED)
    }
    return "; ".join(
        f"{origin} data{f': {source}' if source else ''}" for origin, source in sorted(artificial)
    )


def imported_files(records: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the log files of other tools that the page draws on, with the records of each."""
    counts = Counter(
        f"{record.source}, on {record.node}"
        for record in records
        if record.origin is Origin.IMPORTED
    )
    return tuple(f"{count} from {name}" for name, count in sorted(counts.items()))


def headline(tuned: TunedConfig) -> Headline:
    """Return what to set, what it gains and what that rests on."""
    changed = {
        key: choice for key, choice in tuned.choices.items() if choice.value != choice.default
    }
    if tuned.confirmed is None:
        return _predicted_headline(tuned.trainer, changed)
    return _confirmed_headline(tuned.trainer, changed, tuned.confirmed)


def _set_this(changed: dict[str, Choice]) -> str:
    return ", ".join(f"{key} = {choice.value}" for key, choice in changed.items()) or NOTHING_TO_SET


def _predicted_headline(trainer: str, changed: dict[str, Choice]) -> Headline:
    return Headline(
        title=f"Faster settings predicted for {trainer}, not confirmed"
        if changed
        else f"No setting is predicted to beat the defaults of {trainer}",
        set_this=_set_this(changed),
        gain="not measured",
        certainty="fitted curves only, no fresh runs. To confirm it: mi300bench autotune.",
    )


def _confirmed_headline(trainer: str, changed: dict[str, Choice], confirmed: Confirmed) -> Headline:
    gain = 1 - confirmed.ratio.mid
    bounds = f"{1 - confirmed.ratio.high:.1%} to {1 - confirmed.ratio.low:.1%}"
    pending = [key for key, choice in changed.items() if choice.basis is ChoiceBasis.PREDICTED]
    if confirmed.verdict is Confirmation.FASTER:
        title = f"{trainer}: a step takes {gain:.1%} less time"
        gain_text = f"{gain:.1%} of the step time ({bounds})"
    elif pending:
        title = f"Predicted for {trainer}, not confirmed: {', '.join(pending)}"
        gain_text = (
            f"not measured for these settings; without them the best candidate that ran, "
            f"{confirmed.candidate}, gained {gain:+.1%} ({bounds})"
        )
    else:
        title = f"Keep the defaults of {trainer}"
        gain_text = (
            f"none; the best candidate that ran, {confirmed.candidate}, gained {gain:+.1%} "
            f"({bounds}), verdict: {confirmed.verdict}"
        )
    return Headline(
        title=title,
        set_this=_set_this(changed),
        gain=gain_text,
        certainty=(
            f"{confirmed.runs} fresh interleaved runs of each config: "
            f"default {as_text.seconds_range(confirmed.default_s)} per step, "
            f"tuned {as_text.seconds_range(confirmed.tuned_s)}."
        ),
    )
