"""mi300bench explain."""

import json
from pathlib import Path

import click

from mi300bench.cli.options import json_option
from mi300bench.errors import PlanError
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import Choice, TunedConfig
from mi300bench.schema.model import Interval
from mi300bench.units import Unit, format_quantity


def _seconds(interval: Interval) -> str:
    low, mid, high = (
        format_quantity(v, Unit.SECOND) for v in (interval.low, interval.mid, interval.high)
    )
    return f"{mid} ({low} to {high})"


@click.command("explain")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("key", required=False)
@json_option
def command(*, path: Path, key: str | None, as_json: bool) -> None:
    """Explain a tuned config, or one KEY of it: reasons, alternatives, evidence and doubts."""
    tuned = tuned_config.read(path)
    if key is not None and key not in tuned.choices:
        known = ", ".join(tuned.choices) or "none"
        raise PlanError(f"{path} has no choice {key!r}", hint=f"its choices are {known}")
    chosen = {name: choice for name, choice in tuned.choices.items() if key in (None, name)}
    if as_json:
        document = tuned_config.to_document(tuned)
        click.echo(json.dumps({name: document["choices"][name] for name in chosen}))
        return
    head(tuned)
    for name, choice in chosen.items():
        one(name, choice)


def head(tuned: TunedConfig) -> None:
    """Print the trainer and node of the config, and the result of the fresh runs."""
    origin = f"{tuned.origin} data" + (f": {tuned.source}" if tuned.source else "")
    click.echo(f"{tuned.trainer} on {tuned.node} ({tuned.device}), {origin}")
    confirmed = tuned.confirmed
    if confirmed is None:
        click.echo("not confirmed by fresh runs")
        return
    ratio = confirmed.ratio
    click.echo(
        f"fresh runs: {confirmed.candidate} against the default: {confirmed.verdict}, "
        f"{ratio.mid:.3f} of its step ({ratio.low:.3f} to {ratio.high:.3f}) "
        f"on {confirmed.runs} interleaved runs each"
    )
    click.echo(f"  default  {_seconds(confirmed.default_s)} a step")
    click.echo(f"  tuned    {_seconds(confirmed.tuned_s)} a step")
    for side in confirmed.sides[1:]:
        what = f"best without {side.reverts}" if side.reverts else side.label
        click.echo(
            f"  ran: {what}  {_seconds(side.measured_s)}, "
            f"{side.ratio.mid:.3f} of the default ({side.verdict})"
        )


def one(name: str, choice: Choice) -> None:
    """Print one choice."""
    click.echo(f"\n{name} = {choice.value}   (default: {choice.default})")
    click.echo(f"  why: {choice.why}")
    if choice.alternatives:
        click.echo("  predicted time per step of the alternatives:")
    for other in choice.alternatives:
        same = f"  same buckets as {', '.join(map(str, other.same_as))}" if other.same_as else ""
        click.echo(f"    {other.value!s:>16}  {_seconds(other.predicted_s)}{same}")
    for doubt in choice.doubts:
        click.echo(f"  doubt: {doubt}")
    click.echo(f"  evidence: {len(choice.evidence)} records: {' '.join(choice.evidence)}")
