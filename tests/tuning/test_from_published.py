"""A node that nobody measured, from published figures: labelled, wide, bounded by its memory."""

from dataclasses import replace

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import published_device
from mi300bench.schema.config import ChoiceBasis
from mi300bench.schema.doubt import Modelled
from mi300bench.schema.record import Origin, World
from mi300bench.store.reader import read_records
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning.from_published import tune_from_published
from mi300bench.tuning.tune import NO_BASELINE

MI300X_BYTES = 206_141_652_992.0
NODE = World(device="rocm", ranks=8)


@pytest.fixture
def job() -> Job:
    spec = spec_of("zaya1")
    config = spec.preset("zaya1-8b")
    return Job(spec=spec, config=config, world=NODE, memory_limit=MI300X_BYTES, keep_shapes=True)


def records_of(device: str, job: Job):
    return strategy_of(job).published_records(job, published_device(device))


def test_the_config_is_labelled_and_knows_that_buckets_cannot_split_the_embedding(
    tmp_path, job: Job
) -> None:
    tuned = tune_from_published(job, published_device("mi300x"), Settings(store=tmp_path))
    config = tuned.config
    assert (
        config.origin == "modelled"
        and "published figures" in config.source
        and config.confirmed is None
    )
    buckets = config.choices["ddp.bucket_cap_mb"]
    assert buckets.basis is ChoiceBasis.PREDICTED
    assert any("embedding.weight" in doubt for doubt in buckets.doubts)
    # All activations of the default do not fit, so there is nothing to compare with.
    recompute = config.choices["compute.recompute"]
    assert recompute.value == "block" and NO_BASELINE in recompute.why
    assert any(note.startswith(NO_BASELINE) for note in tuned.notes)
    stored = read_records(tmp_path)
    assert stored and all(record.origin is Origin.MODELLED for record in stored)
    for record in stored:
        (doubt,) = record.doubts
        assert isinstance(doubt, Modelled)
    assert set(buckets.evidence) <= {record.id for record in stored}
    wide = buckets.alternatives[0].predicted_s
    assert wide.high / wide.low > 1.5


def test_the_timeline_stands_between_the_published_shares_of_the_peak(job: Job) -> None:
    timeline = next(r for r in records_of("mi300x", job) if r.probe == "zaya1.backward")
    fastest, middle, slowest = timeline.samples
    rates = [timeline.work.flop / (s - timeline.series["update_s"][0]) for s in (fastest, slowest)]
    assert rates[0] / 1307.4e12 == pytest.approx(0.51) and rates[1] / 1307.4e12 == pytest.approx(
        0.08
    )
    assert fastest < middle < slowest and timeline.series["parameter"][-1] == "input_scale"


def test_what_nobody_published_is_named(job: Job) -> None:
    with pytest.raises(PlanError, match="abacus"):
        list(records_of("abacus", job))
    with pytest.raises(PlanError, match="among 2 or 4 NVIDIA H200"):
        list(records_of("h200", replace(job, world=World(device="rocm", ranks=4))))
