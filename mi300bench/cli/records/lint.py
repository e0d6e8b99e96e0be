"""mi300bench lint."""

import json
from collections.abc import Iterable
from dataclasses import asdict

import click

from mi300bench.api.linting import SEEDS, lint, require_sound
from mi300bench.cli import show
from mi300bench.cli.options import json_option, say
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.judge import worst


@click.command("lint")
@click.argument(
    "what",
    nargs=-1,
    required=True,
    metavar="seeds | STORE | RUN.jsonl | TUNED.toml | CLAIMS.toml ...",
)
@click.option(
    "--all", "everything", is_flag=True, help="Also show claims that are sound or not judged."
)
@json_option
def command(*, what: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Check figures against physics, published peaks and their own arithmetic.

    They come from a store, a run, a tuned config, a file of claims, or `seeds`: three published
    accounts that ship as examples. The exit code is 6 if a figure is wrong; with `seeds` it is 0.
    """
    findings = tuple(finding for each in what for finding in lint(each, warn=say))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(findings, everything=everything)
    if set(what) != {SEEDS}:
        require_sound(findings)


def _print(findings: Iterable[Finding], *, everything: bool) -> None:
    by_claim: dict[str, list[Finding]] = {}
    for finding in findings:
        by_claim.setdefault(finding.claim, []).append(finding)
    counts = dict.fromkeys(LintVerdict, 0)
    for claim, rows in by_claim.items():
        verdict = worst(rows)
        counts[verdict] += 1
        if not everything and not any(row.is_bad for row in rows):
            continue
        click.echo(f"{verdict}: {claim}: {rows[0].subject}")
        for row in rows:
            if everything or row.is_bad:
                _print_one(row)
    show.table(("claims", *(str(v) for v in counts)), [(len(by_claim), *counts.values())])


def _print_one(finding: Finding) -> None:
    click.echo(f"    {finding.rule}: {finding.figures}")
    if finding.cause:
        click.echo(f"    likely cause: {finding.cause}")
    if finding.next_step:
        click.echo(f"    next step: {finding.next_step}")
