"""Every declared trainer keeps its promises to the library and to its strategy."""

import importlib
import importlib.util
from typing import Any

import pytest
from mi300bench.schema.candidate import Candidate, Option
from mi300bench.schema.plan import Stop
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.trainer import KnobKind, KnobRequest, KnobSpec, TrainerSpec
from mi300bench.strategies.base import Request
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import STRATEGIES, strategy_for, strategy_of
from mi300bench.trainers.registry import function_of, names, spec_of

PROBES = {"ddp": {"backward", "step", "memory"}, "mesh": {"step"}}
GROUPS = {"ddp": ("ranks", "buckets"), "mesh": ("mesh",)}
MODELS = {"ddp": "data_parallel", "mesh": "mesh_model"}
# Options of these kinds come from the trainer; those of the other kinds come from the strategy.
DECLARED = (KnobKind.RUN, KnobKind.PRODUCTS)
RANKS = 2


@pytest.fixture(params=names())
def spec(request: pytest.FixtureRequest) -> TrainerSpec:
    return spec_of(request.param)


@pytest.fixture
def job(spec: TrainerSpec) -> Job:
    """The default job on a CPU, with a memory limit that the default nearly reaches."""
    request = Request(device="cpu", ranks=RANKS, is_absent=True)
    default = spec.preset(spec.default_presets["cpu"])
    world, config = strategy_for(spec).place(spec, default, {}, request)
    return Job(spec=spec, config=config, world=world, memory_limit=1.0)


def options_of(knob: KnobSpec, config: Any) -> list[dict[str, Any]]:
    """Return all options of a knob: those for little memory and for other precisions too."""
    request = KnobRequest(
        config=config,
        ranks=RANKS,
        is_short_of_memory=True,
        precisions=("float32", "bfloat16"),
        param_tolerance=0.02,
    )
    return [dict(keys) for keys in knob.options(request)]


def test_its_keys_exist(spec: TrainerSpec) -> None:
    config = spec.preset(spec.default_presets["cpu"])
    keys = [
        *(key for knob in spec.knobs for key in knob.keys),
        *spec.point_keys,
        *spec.planned_keys,
        *spec.options.values(),
        *spec.as_param,
    ]
    tables = spec.to_tables(config)
    for key in keys:
        part, _, name = key.rpartition(".")
        assert name in (tables[part] if part else tables), key
    assert len(set(spec.knob_names)) == len(spec.knobs)


def test_each_option_changes_the_config_and_is_possible_or_filtered(job: Job) -> None:
    spec, strategy = job.spec, strategy_of(job)
    declared = [knob for knob in spec.knobs if knob.kind in DECLARED]
    assert declared
    for knob in declared:
        possible = 0
        options = options_of(knob, job.config)
        assert options, knob.name
        for keys in options:
            assert keys and set(keys) <= set(knob.keys), knob.name
            candidate = Candidate(options={knob.name: Option(keys=keys)})
            if strategy.is_possible(job, candidate):
                possible += 1
                assert job.with_keys(keys) != job.config, (knob.name, keys)
        assert possible, knob.name


def test_options_of_the_strategy_s_knobs_are_not_declared(job: Job) -> None:
    for knob in job.spec.knobs:
        if knob.kind not in DECLARED:
            assert not options_of(knob, job.config), knob.name


def test_a_knob_that_is_weighed_by_its_flop_has_a_factor_for_each_option(job: Job) -> None:
    for knob in job.spec.knobs:
        if knob.flop_factor is not None:
            (key,) = knob.keys
            default = job.spec.value_of(job.config, key)
            assert knob.flop_factor(default, default) == 1.0
            factors = [
                knob.flop_factor(default, keys[key]) for keys in options_of(knob, job.config)
            ]
            assert factors and all(factor > 0 for factor in factors), knob.name


def test_its_doubts_need_only_its_readings(spec: TrainerSpec) -> None:
    readings = dict.fromkeys(spec.readings, 2.0)
    for knob in spec.knobs:
        text = knob.doubt.format(**readings)
        assert "{" not in text
        assert knob.doubt or not knob.is_always_doubted, knob.name


def test_it_has_the_probes_the_model_and_the_groups_of_its_strategy(spec: TrainerSpec) -> None:
    assert set(PROBES) == set(STRATEGIES)  # a new strategy needs its rows here
    assert PROBES[spec.strategy] <= set(spec.probes)
    assert getattr(spec, MODELS[spec.strategy]) is not None
    for name, config in spec.presets.items():
        settings = spec.settings(config, RANKS)
        for group in GROUPS[spec.strategy]:
            assert getattr(settings, group) is not None, (name, group)


def test_all_its_points_are_of_probes_that_it_declares(job: Job) -> None:
    points = [point for stage in strategy_of(job).stages(job) for point in stage.points]
    points.append(strategy_of(job).step_point(job, Candidate(options={}), Stop()))
    prefix = f"{job.trainer}."
    own = {p.probe.removeprefix(prefix) for p in points if p.probe.startswith(prefix)}
    assert "step" in own and own <= set(job.spec.probes)
    for point in points:
        if point.probe.startswith(prefix):  # what a worker makes of the parameters
            job.spec.from_params(point.params)


def test_each_probe_can_be_imported(spec: TrainerSpec) -> None:
    for name, entry in spec.probes.items():
        assert entry.needs == spec.framework, name
        if importlib.util.find_spec(entry.needs) is None:
            pytest.skip(f"{entry.needs} is not installed")
        module, _, cls = entry.target.partition(":")
        assert issubclass(getattr(importlib.import_module(module), cls), AbstractProbe), name


def test_it_can_be_trained_and_checked_before(spec: TrainerSpec) -> None:
    if importlib.util.find_spec(spec.framework) is None:
        pytest.skip(f"{spec.framework} is not installed")
    for name in ("main", "preflight"):
        assert callable(function_of(spec, "train", name))


def test_there_is_a_default_preset_for_each_kind_of_device(spec: TrainerSpec) -> None:
    assert set(spec.default_presets) == {"cpu", "cuda", "rocm"}
    assert set(spec.default_presets.values()) <= set(spec.presets)
    assert all(config.preset == name for name, config in spec.presets.items())


def test_its_model_is_described_for_every_preset(spec: TrainerSpec) -> None:
    for config in spec.presets.values():
        described = spec.describe(config)
        assert (described.name, described.preset) == (spec.name, config.preset)
        assert described.flop_per_token > 0 and described.gemms and described.parameters
        assert all(count > 0 for count in spec.counts(config).values())


def test_its_planner_exists(spec: TrainerSpec) -> None:
    assert bool(spec.planner) == bool(spec.planned_keys)
    if spec.planner:
        assert importlib.util.find_spec(spec.planner) is not None
