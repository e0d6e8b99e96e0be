"""Configs and reports from a stored run have the choices, figures and evidence of version 0.1.0.

Version 0.1.0 wrote ``store/``, ``zaya1.toml`` and ``lora405b.toml`` (records of schema 1, configs
of format 1) on a CPU of two cores: ``mi300bench autotune`` of each trainer's `tiny` preset, with
real runs. ``page-*.json`` has the figures of its reports.
"""

import json
from pathlib import Path

import pytest
from mi300bench.api.jobs import JobOptions, autotune, job_from
from mi300bench.measurement.settings import Settings
from mi300bench.schema import config as tuned_config
from mi300bench.schema.record import Measurement
from mi300bench.store.reader import read_records
from mi300bench.strategies.ddp import strategy as data_parallel
from mi300bench.strategies.mesh import compile_step
from mi300bench.tuning import autotune as whole_job
from mi300bench.tuning import confirm as confirming

from mi300bench_reports.builder import build
from tests.golden.outline import named, of_config, of_page
from tests.golden.replay import recompiled, replayed

FOLDER = Path(__file__).parent
OPTIONS = {
    "zaya1": JobOptions(trainer="zaya1", preset="tiny", device="cpu"),
    "lora405b": JobOptions(trainer="lora405b", preset="tiny", device="cpu", ranks=4),
}
# Variables have their own rows since schema 2. Published claims do not come from this store, and
# their sentences contain figures.
REARRANGED = ("conditions", "claims")


@pytest.fixture(scope="module")
def records() -> tuple[Measurement, ...]:
    return read_records(FOLDER / "store")


def test_a_store_of_schema_1_is_read_whole(records) -> None:
    assert len(records) == 118 and {record.schema for record in records} == {2}
    assert all("environment" not in record.conditions for record in records)
    threads = {record.variables.get("OMP_NUM_THREADS") for record in records if record.variables}
    assert threads == {"1", "2"}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", list(OPTIONS))
def test_the_same_records_give_the_same_config(trainer: str, records, monkeypatch) -> None:
    measure = replayed(records)
    for module in (whole_job, confirming, data_parallel):
        monkeypatch.setattr(module, "measure", measure)
    compile_all, keep = recompiled(records)
    monkeypatch.setattr(compile_step, "compile_all", compile_all)
    monkeypatch.setattr(compile_step, "keep", keep)
    monkeypatch.setattr("mi300bench.measurement.local_topology.cores", lambda: 2)
    monkeypatch.setattr("mi300bench.strategies.ddp.layouts.cores", lambda: 2)
    before = tuned_config.read(FOLDER / f"{trainer}.toml")
    job = job_from(OPTIONS[trainer])
    now = autotune(job, Settings(node="n1"), budget_s=330.0, passes=None).config
    names = named(records)
    assert of_config(now, names) == of_config(before, names)


@pytest.mark.parametrize("trainer", list(OPTIONS))
def test_the_same_records_give_the_same_page(trainer: str, records) -> None:
    before = json.loads((FOLDER / f"page-{trainer}.json").read_text())
    spec = job_from(OPTIONS[trainer]).spec
    tuned = tuned_config.read(FOLDER / f"{trainer}.toml")
    defaults = {key: choice.default for key, choice in tuned.choices.items()}
    config = spec.override(spec.from_tables(tuned.config), defaults)
    now = json.loads(json.dumps(of_page(build(records, tuned, spec.describe(config).gemms))))
    assert list(now) == list(before)
    for anchor in before:
        if anchor not in REARRANGED:
            assert now[anchor] == before[anchor], anchor
