"""A small study of matrix products, measured on the CPU."""

import itertools
from dataclasses import replace

import pytest
from mi300bench.errors import PlanError
from mi300bench.measurement import gemm_study
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.settings import Settings
from mi300bench.store.reader import read_runs
from mi300bench.trainers.registry import spec_of

AXES = ((16, 32, 64, 128),) * 3


def study(tmp_path, axes=AXES, budget_s: float = 6.0):
    spec = spec_of("zaya1")
    gemms = spec.describe(spec.preset("tiny")).gemms
    return gemm_study.study(
        axes,
        local_topology("cpu", 1),
        Settings(store=tmp_path),
        dtype="float32",
        layouts=("nt", "nn", "tn"),
        cache="hot",  # products as small as these flush the cache if cold, which takes long
        inputs="normal",
        budget_s=budget_s,
        workload=gemms,
        now=itertools.count(step=0.1).__next__,  # so a busy machine measures as many shapes
    )


@pytest.mark.slow
@pytest.mark.torch
def test_a_budget_gives_a_best_shape_rules_and_a_fit_and_every_try_is_a_record(
    tmp_path, monkeypatch
) -> None:
    for name in ("SEARCH_STOP", "STUDY_STOP"):
        quick = replace(getattr(gemm_study, name), max_seconds=0.02, warmup_seconds=0.0)
        monkeypatch.setattr(gemm_study, name, quick)
    result = study(tmp_path)
    assert result.search.rate > 0 and result.search.best in gemm_study.grid_of(AXES, "nt")
    assert {rule.name for rule in result.rules} >= {"least", "flop"}
    assert result.model is not None and result.model.errors
    assert result.score is not None and result.score.together <= result.score.best
    assert result.published is not None and result.published.kept == 0
    (run,) = read_runs(tmp_path)
    assert run.finished
    assert len(run.records) == len(result.measured.records) >= len(result.search.trace)
    ids = {record.id for record in run.records}
    assert all(set(rule.evidence) <= ids for rule in result.rules)
    assert set(result.model.evidence) <= ids


def test_a_grid_of_too_few_shapes_is_refused(tmp_path) -> None:
    with pytest.raises(PlanError, match=r"2 shapes.* 12"):
        study(tmp_path, axes=((16,), (16, 32), (16,)))


def test_a_small_grid_is_not_searchable() -> None:
    assert not gemm_study.is_searchable(((64,), (64,), (64, 128)))
    assert gemm_study.is_searchable(((64, 128, 256),) * 3)


def test_random_shapes_stay_in_range_and_repeat() -> None:
    def drawn(seed: int):
        shapes = gemm_study.random_shapes(((64, 2048),) * 3, ("nt", "nn", "tn"), seed=seed)
        return list(itertools.islice(shapes, 50))

    first = drawn(5)
    assert first == drawn(5) and first != drawn(6)
    assert all(60 <= p.m <= 2112 and p.flop <= 2.0 * 2048**3 for p in first)
    assert any(p.n % 8 for p in first) and {p.layout for p in first} == {"nt", "nn", "tn"}
