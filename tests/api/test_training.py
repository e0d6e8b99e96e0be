"""Options of a training run: which exclude each other, and what a preset leaves to them."""

from pathlib import Path

import pytest
from mi300bench.api.training import TrainOptions, model_size, prepare_training, require_trained
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Outcome


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"preset": "tiny", "tuned": Path("tuned.toml")}, "--preset and --config"),
        ({"resume": True}, "--resume"),
        ({"ranks": 0}, r"--ranks .* 0"),
        ({"every": 0}, r"--every .* 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(parts, named: str) -> None:
    with pytest.raises(PlanError, match=named):
        TrainOptions(trainer="zaya1", **parts)


def test_a_run_has_the_config_of_its_options(tmp_path: Path) -> None:
    options = TrainOptions(
        trainer="zaya1", device="cpu", ranks=2, steps=7, keys={"data.micro_batch": 3}
    )
    training = prepare_training(options, Settings(store=tmp_path))
    config = training.request.config
    assert (config.preset, config.steps, config.data.micro_batch) == ("tiny", 7, 3)
    assert training.world.ranks == 2 and training.needs_ranks


def test_the_size_of_a_model_is_known_without_allocating_it() -> None:
    size = model_size(TrainOptions(trainer="zaya1", preset="zaya1-8b"))
    assert size.parameters["total"] == 8_840_488_784 and size.products


def test_a_run_that_failed_is_an_error_with_its_reason(make_record) -> None:
    require_trained(make_record("zaya1.train"))
    with pytest.raises(ProbeError, match="out of memory") as caught:
        require_trained(
            make_record("zaya1.train", outcome=Outcome.FAILED, reason="out of memory", samples=())
        )
    assert "--resume" in caught.value.hint
