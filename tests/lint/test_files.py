"""Claim files: the error names what is wrong in one."""

from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.lint import files

RATIO = "[[claims]]\nkind = 'ratio'\n"


def test_a_claim_takes_what_the_file_does_not_repeat(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(f"source = 'a blog'\n{RATIO}figures = {{ stated = 2, values = [1, 2] }}\n")
    (claim,) = files.read(path)
    assert (claim.id, claim.source, claim.origin) == (f"{path}:1", "a blog", "published")
    assert claim.number("stated") == 2.0 and claim.numbers("values") == (1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("claims = 3", r"\[\[claims\]\]"),
        ("[[claims]]\nsubject = 'x'", "claim 1 has no kind"),
        (f"{RATIO}figures = 3", "figures of claim 1"),
        (f"{RATIO}figures = {{ stated = true }}", "stated of claim 1"),
        ("[[claims", "TOML"),
        (f"{RATIO}figures = {{ stated = [1, true] }}", "stated of claim 1"),
        (f"{RATIO}seconds = 3", "claim 1 .*'seconds'"),
        (f"{RATIO}id = 'a'\n{RATIO}id = 'a'", "two claims .*'a'"),
    ],
)
def test_the_error_names_the_wrong_part_of_a_file(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(RecordError, match=named) as caught:
        files.read(path)
    assert caught.value.hint


def test_a_missing_file_is_an_error_of_the_request(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        files.read(tmp_path / "none.toml")
