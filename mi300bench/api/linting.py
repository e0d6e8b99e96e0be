"""Figures checked against physics, published peaks and their own arithmetic.

They come from a store, a run, a tuned config, a file of claims, or the accounts that ship.
"""

from pathlib import Path

from mi300bench.errors import CheckError, RecordError
from mi300bench.lint import files
from mi300bench.lint.finding import Finding, LintVerdict
from mi300bench.lint.judge import judge
from mi300bench.lint.sources import claims_of, judge_config
from mi300bench.measurement.settings import Say, silent
from mi300bench.schema import config as tuned_config
from mi300bench.store.reader import read_records, read_run

SEEDS = "seeds"


def lint(what: str, *, warn: Say = silent) -> tuple[Finding, ...]:
    """Return the findings on ``seeds``, a store, a node, a run, a tuned config or a claim file."""
    if what == SEEDS:
        return judge(files.shipped())
    path = Path(what)
    if path.is_dir() or path.suffix == ".jsonl":
        records = list(read_run(path).records if path.is_file() else read_records(path, warn=warn))
        if not records:
            raise RecordError(
                f"{path} has no records",
                hint="give a store, the folder of a node in it, or the file of a run",
            )
        return judge(claims_of(records))
    if path.suffix == ".toml" and tuned_config.is_tuned_config(path):
        return tuple(judge_config(tuned_config.read(path), name=str(path)))
    return judge(files.read(path))


def require_sound(findings: tuple[Finding, ...]) -> None:
    """Raise `CheckError` if a figure is wrong."""
    wrong = [finding for finding in findings if finding.verdict is LintVerdict.WRONG]
    if wrong:
        claims = len({finding.claim for finding in wrong})
        raise CheckError(
            f"{claims} claim(s) cannot be right, such as {wrong[0].claim}: {wrong[0].figures}",
            hint=wrong[0].next_step,
        )
