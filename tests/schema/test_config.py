from pathlib import Path

import pytest
import tomli_w
from mi300bench.errors import PlanError, RecordError
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import Choice, ChoiceBasis
from tests.samples import tuned


def test_a_choice_without_evidence_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="evidence"):
        Choice(value=1, default=2, why="a feeling", evidence=())


def test_the_config_is_equal_after_toml(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(tomli_w.dumps(tuned_config.to_document(tuned())))
    assert tuned_config.read(path) == tuned()


@pytest.mark.parametrize(
    "text", ["not toml [", "format = 3", 'format = 2\ntrainer = "x"', "format = 2\nchoices = 3"]
)
def test_a_damaged_config_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"bad\.toml"):
        tuned_config.read(path)


def test_a_missing_config_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        tuned_config.read(tmp_path / "none.toml")
    assert "mi300bench tune" in caught.value.hint


def test_format_1_is_read_with_the_basis_that_its_sentences_had(tmp_path: Path) -> None:
    document = tuned_config.to_document(tuned()) | {"format": 1}
    document["choices"]["steps"] = dict(document["choices"]["ddp.bucket_cap_mb"])
    for choice in document["choices"].values():
        del choice["basis"]
    document["choices"]["steps"]["why"] = "3 is predicted to be fast; not confirmed by fresh runs."
    path = tmp_path / "old.toml"
    path.write_text(tomli_w.dumps(document))
    choices = tuned_config.read(path).choices
    assert choices["ddp.bucket_cap_mb"].basis is ChoiceBasis.CONFIRMED
    assert choices["steps"].basis is ChoiceBasis.PREDICTED
