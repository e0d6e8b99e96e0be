"""The linter's result for a claim: verdict, figures, rule, likely cause and next step."""

from dataclasses import dataclass
from enum import StrEnum


class LintVerdict(StrEnum):
    """What a rule decides. `NOT_JUDGED`: no rule applies to the figures of the claim."""

    SOUND = "sound"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one rule for one claim."""

    claim: str
    subject: str
    verdict: LintVerdict
    rule: str
    figures: str
    cause: str = ""
    next_step: str = ""
    source: str = ""

    @property
    def is_bad(self) -> bool:
        """Return whether a person should look at the claim."""
        return self.verdict in (LintVerdict.WRONG, LintVerdict.DOUBTFUL)
