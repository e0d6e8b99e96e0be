from pathlib import Path

import pytest
import tomli_w
from mi300bench.errors import PlanError, RecordError
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import Alternative, Choice, Confirmation, Confirmed, Side, TunedConfig
from mi300bench.schema.model import Interval

SECOND = Interval(low=0.9, mid=1.0, high=1.1)


def tuned() -> TunedConfig:
    choice = Choice(
        value=[1.0, 50.0], default="default", why="it is faster", evidence=("abc",), doubts=("few passes",),
        alternatives=(Alternative(value="default", predicted_s=SECOND, same_as=(25.0,)),),
    )  # fmt: skip
    confirmed = Confirmed(
        candidate="1,50",
        default_s=SECOND,
        tuned_s=SECOND,
        ratio=SECOND,
        runs=3,
        verdict=Confirmation.FASTER,
        evidence=("abc",),
        sides=(
            Side(
                label="default",
                predicted_s=SECOND,
                measured_s=SECOND,
                ratio=SECOND,
                verdict="same",
                evidence=("abc",),
            ),
            Side(
                label="1,50",
                predicted_s=SECOND,
                measured_s=SECOND,
                ratio=SECOND,
                verdict="faster",
                reverts="batch",
                over_best=SECOND,
            ),
        ),
    )
    return TunedConfig(
        trainer="zaya1", config={"ddp": {"bucket_cap_mb": [1.0, 50.0]}, "steps": 3}, choices={"ddp.bucket_cap_mb": choice},
        confirmed=confirmed, node="n1", device="a CPU", made_by="mi300bench tune zaya1",
    )  # fmt: skip


def test_a_choice_without_evidence_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="without evidence"):
        Choice(value=1, default=2, why="a feeling", evidence=())


def test_the_config_survives_toml_whole(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(tomli_w.dumps(tuned_config.to_document(tuned())))
    assert tuned_config.read(path) == tuned()


@pytest.mark.parametrize(
    "text", ["not toml [", "format = 2", 'format = 1\ntrainer = "x"', "format = 1\nchoices = 3"]
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
