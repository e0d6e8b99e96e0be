"""mi300bench lint."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from mi300bench.cli import show
from mi300bench.cli.options import json_option, say
from mi300bench.errors import CheckError, RecordError
from mi300bench.lint import files
from mi300bench.lint.judge import judge, worst
from mi300bench.lint.sources import claims_of, judge_config
from mi300bench.schema import config as tuned_config
from mi300bench.schema.finding import Finding, Verdict
from mi300bench.store.reader import read_records, read_run

SEEDS = "seeds"


def findings_of(what: str) -> tuple[Finding, ...]:
    """Return the findings on the shipped claims (``seeds``), a store or a part of one, a tuned config, or a claim file."""
    if what == SEEDS:
        return judge(files.shipped())
    path = Path(what)
    if path.is_dir() or path.suffix == ".jsonl":
        records = list(read_run(path).records if path.is_file() else read_records(path, warn=say))
        if not records:
            raise RecordError(
                f"{path} holds no record", hint="a store, a node's folder in one, or a run's file"
            )
        return judge(claims_of(records))
    if (
        path.suffix == ".toml"
        and path.exists()
        and "[choices" in path.read_text(encoding="utf-8", errors="replace")
    ):
        return tuple(judge_config(tuned_config.read(path), name=str(path)))
    return judge(files.read(path))


@click.command("lint")
@click.argument(
    "what",
    nargs=-1,
    required=True,
    metavar="seeds | STORE | RUN.jsonl | TUNED.toml | CLAIMS.toml ...",
)
@click.option("--all", "everything", is_flag=True, help="Show what is sound or not judged as well.")
@json_option
def command(*, what: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Hold figures against physics, published peaks and their own arithmetic.

    Exits with 6 where a figure is wrong, 0 else; `seeds`, three published accounts that ship as examples, always exits with 0.
    """
    findings = [finding for each in what for finding in findings_of(each)]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(findings, everything=everything)
    wrong = [f for f in findings if f.verdict is Verdict.WRONG]
    if wrong and set(what) != {SEEDS}:
        claims = len({finding.claim for finding in wrong})
        raise CheckError(
            f"{claims} claim(s) cannot be right, such as {wrong[0].claim}: {wrong[0].figures}",
            hint=wrong[0].next_step,
        )


def _print(findings: Iterable[Finding], *, everything: bool) -> None:
    by_claim: dict[str, list[Finding]] = {}
    for finding in findings:
        by_claim.setdefault(finding.claim, []).append(finding)
    counts = dict.fromkeys(Verdict, 0)
    for claim, found in by_claim.items():
        verdict = worst(found)
        counts[verdict] += 1
        if not everything and not any(f.is_bad for f in found):
            continue
        click.echo(f"{verdict}: {claim}: {found[0].subject}")
        for finding in found:
            if everything or finding.is_bad:
                _one(finding)
    show.table(("claims", *(str(v) for v in counts)), [(len(by_claim), *counts.values())])


def _one(finding: Finding) -> None:
    click.echo(f"    {finding.rule}: {finding.figures}")
    if finding.cause:
        click.echo(f"    likely: {finding.cause}")
    if finding.next_step:
        click.echo(f"    next: {finding.next_step}")
