"""What the linter says of a claim: a verdict with the figures, the rule, the likely cause and the next step."""

from dataclasses import dataclass
from enum import StrEnum


class LintVerdict(StrEnum):
    """`SOUND` agrees with the physics it states enough for; `NOT_JUDGED` states too little, or nothing physics knows."""

    SOUND = "sound"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's word on one claim."""

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
        """Return whether a person has to look at it."""
        return self.verdict in (LintVerdict.WRONG, LintVerdict.DOUBTFUL)
