"""Tuning from records, without running anything; and the whole job, small, for real."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.measurement.measure import Measured
from mi300bench.measurement.settings import Settings
from mi300bench.runner.session import Tally
from mi300bench.schema import config as tuned_config
from mi300bench.schema.candidate import Candidate, Option
from mi300bench.schema.record import Work, World
from mi300bench.strategies.base import Space
from mi300bench.strategies.ddp import strategy as data_parallel
from mi300bench.strategies.ddp.layouts import (
    default_layout,
    layouts_of,
    step_params,
    timeline_params,
)
from mi300bench.strategies.ddp.memory import MARGIN
from mi300bench.strategies.ddp.stages import run_options, stages
from mi300bench.strategies.job import Job
from mi300bench.strategies.table import strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning import confirm as confirming
from mi300bench.tuning.autotune import require_basis
from mi300bench.tuning.confirm import affordable, confirm
from mi300bench.tuning.search import Arm
from mi300bench.tuning.tune import search, search_what_fits, tune
from mi300bench.units import MIB

ZAYA1 = spec_of("zaya1")
LONGEST_BUDGET_S = 800
WORLD = World(device="cpu", ranks=2, threads=1)
ALONE = World(device="cpu", ranks=1, threads=2)


@pytest.fixture
def job() -> Job:
    return Job(spec=ZAYA1, config=ZAYA1.preset("tiny"), world=WORLD, keep_shapes=True)


def points_of(job: Job):
    return [point for stage in stages(job) for point in stage.points]


def space_of(job: Job, records) -> Space:
    return strategy_of(job).space(job, records, Settings())


def need_of(job: Job, config, load: float = 1.0) -> float:
    """Bytes of the tensors of `config` on one of two ranks."""
    return ZAYA1.data_parallel.memory(config, ranks=2, readings={"expert_load": load}).peak_bytes


@pytest.fixture
def timeline(make_record, job: Job):
    """Return a function that makes the timeline of a layout with changed keys and longer phases."""

    def make(layout=None, stretch: float = 1.0, **keys):
        layout = layout or default_layout(job)
        count = 30
        series = {
            "parameter": tuple(f"p{i}" for i in range(count)),
            "parameter_bytes": (MIB,) * count,
            "ready_s": tuple(0.01 * stretch * (i + 1) for i in range(count)) * 5,
            "forward_s": (0.1 * stretch,) * 5,
            "backward_s": (0.31 * stretch,) * 5,
            "update_s": (0.05,) * 5,
            "expert_load": (1.5, 2.5),
        }
        params = timeline_params(job, layout, keys)
        return make_record(
            "zaya1.backward",
            params=params,
            world=layout.world,
            series=series,
            id=f"t{layout}{keys}",
        )

    return make


@pytest.fixture
def records(make_record, job: Job, timeline):
    rows = [
        make_record(
            "collective.all_reduce",
            params={"bytes": s, "dtype": "float32"},
            ranks=2,
            samples=(1e-3 + s / 1e8,) * 5,
            work=Work(message_bytes=s),
        )
        for s in (8, 2**16, 2**20, 2**24, 2**26)
    ]
    parts = {
        "compute_alone_s": (1.0,),
        "collective_alone_s": (1.5,),
        "compute_beside_s": (1.1,),
        "both_s": (1.6,),
    }
    rows.append(
        make_record(
            "overlap",
            params={"bytes": MIB, "inflight": 2},
            ranks=2,
            series=parts,
            work=Work(message_bytes=2 * MIB),
        )
    )
    return [*rows, timeline()]


def test_a_choice_names_the_records_it_rests_on(job: Job, records) -> None:
    tuned = tune(job, records, Settings(), confirm_by_runs=False)
    choice = tuned.config.choices["ddp.bucket_cap_mb"]
    assert set(choice.evidence) == {record.id for record in records}
    assert tuned.config.confirmed is None
    assert tuned.config.config["ddp"]["bucket_cap_mb"] == choice.value
    assert ZAYA1.from_tables(tuned.config.config) is not None


def test_a_measured_change_is_weighed_and_an_unmeasured_one_is_noted(
    job: Job, records, timeline
) -> None:
    faster = timeline(stretch=0.5, **{"compute.experts": "loop"})
    tuned = tune(job, [*records, faster], Settings(), confirm_by_runs=False)
    choice = tuned.config.choices["compute.experts"]
    assert (
        choice.value == "loop"
        and faster.id in choice.evidence
        and tuned.config.config["compute"]["experts"] == "loop"
    )
    assert choice.alternatives[0].value == "loop" and len(choice.alternatives) == 2
    assert any("compute.experts=padded" in note for note in tuned.notes)
    assert not any("compute.experts=loop" in note for note in tuned.notes)
    assert ZAYA1.knob("experts").doubt.format(expert_load=2.0) in choice.doubts


def test_ranks_and_threads_are_chosen_with_the_micro_batch_at_the_same_global_batch(
    job: Job, records, timeline
) -> None:
    free = replace(job, may_regroup=True)
    assert {
        layout.micro_batch * layout.accumulate * layout.world.ranks for layout in layouts_of(free)
    } == {8}
    elsewhere = next(layout for layout in layouts_of(free) if layout.world.ranks == 1)
    tuned = tune(
        free, [*records, timeline(elsewhere, stretch=0.5)], Settings(), confirm_by_runs=False
    )
    assert tuned.config.config["launch"] == {"ranks": 1, "threads": elsewhere.world.threads}
    assert tuned.config.config["data"]["micro_batch"] == 8 and tuned.config.ranks == 1
    assert tuned.config.choices["launch.ranks"].evidence
    # One rank has no buckets to set.
    assert tuned.config.config["ddp"]["bucket_cap_mb"] == "default"


def test_what_does_not_fit_is_not_weighed_and_nothing_fitting_names_the_nearest(
    job: Job, records, timeline
) -> None:
    small = next(layout for layout in layouts_of(job) if layout.micro_batch == 1)
    stored = [
        *records,
        timeline(small, stretch=0.5),
        timeline(**{"compute.recompute": "block"}, stretch=1.2),
    ]
    limits = [need_of(job, job.with_keys({"data.micro_batch": size})) for size in (1, 4)]
    tight = replace(job, memory_limit=sum(limits) / 2)
    assert {"compute.recompute": "block"} in run_options(tight)[ZAYA1.knob("recompute")]
    space = space_of(tight, stored)
    ranked, best = search(tight, space)
    assert all(space.memory.held(row.candidate) <= tight.memory_limit for row in ranked)
    assert best.changed
    small_job = replace(job, memory_limit=1e6)
    with pytest.raises(PlanError) as caught:
        search(small_job, space_of(small_job, stored))
    assert "976.6 KiB" in str(caught.value) and "--memory-limit" in caught.value.hint
    assert "micro_batch 1" in str(caught.value)  # it needs least


def test_near_the_limit_the_pick_is_measured_and_the_search_goes_on_until_one_fits(
    monkeypatch, job: Job, records, timeline, make_record
) -> None:

    small = next(layout for layout in layouts_of(job) if layout.micro_batch == 1)
    chunk = timeline(stretch=0.5, **{"compute.loss_chunk": 256})
    stored = [*records, timeline(small, stretch=0.6), chunk]
    default_need = need_of(job, job.config, load=2.0)
    limit = 1.3 * default_need
    measured: list[dict] = []

    def scripted(plan, settings) -> Measured:
        (point,) = plan.points
        measured.append(dict(point.params))
        held = 2 * limit if point.params.get("compute.loss_chunk") else 0.9 * limit
        series = {
            "peak_bytes": (default_need,),
            "held_before_bytes": (0.0,),
            "held_bytes": (held,),
            "expert_load": (2.0,),
        }
        record = make_record(
            "zaya1.memory",
            params=dict(point.params),
            world=point.world,
            series=series,
            point=point.key,
        )
        return Measured(run="r", path=Path("r"), records=(record,), tally=Tally())

    monkeypatch.setattr(data_parallel, "measure", scripted)
    tight = replace(job, memory_limit=limit)
    own = {
        "peak_bytes": (default_need,),
        "held_before_bytes": (0.0,),
        "held_bytes": (default_need,),
        "expert_load": (2.0,),
    }
    stored.append(
        make_record(
            "zaya1.memory", params=step_params(job, {}), world=WORLD, series=own, id="default's"
        )
    )
    space = space_of(tight, stored)
    _, best = search(tight, space)
    assert "loss_chunk" in best.changed and space.memory.is_near(best)
    assert search_what_fits(tight, space, may_run=False)[1] == best and not measured
    _, best = search_what_fits(tight, space, may_run=True)
    assert measured and measured[0]["compute.loss_chunk"] == 256
    assert len(space.memory.records()) == len(measured)
    assert best.label in space.memory.known.proven and "loss_chunk" not in best.changed


def test_the_memory_of_a_process_corrects_the_model(make_record, job: Job, records) -> None:
    need = need_of(job, job.config, load=2.0)
    series = {
        "peak_bytes": (need,),
        "held_before_bytes": (1e8,),
        "held_bytes": (1e8 + 1.5 * need,),
        "expert_load": (2.0,),
    }
    record = make_record("zaya1.memory", params=step_params(job, {}), world=WORLD, series=series)
    space = space_of(job, [*records, record])
    assert space.memory.known.overhead == pytest.approx(1.5) and space.memory.held(
        space.default
    ) == pytest.approx(1e8 + MARGIN * 1.5 * need)
    assert not space.memory.doubts() and space_of(job, records).memory.doubts()


def test_the_memory_of_another_config_corrects_nothing(make_record, job: Job, records) -> None:
    series = {
        "peak_bytes": (1.0,),
        "held_before_bytes": (0.0,),
        "held_bytes": (9.0,),
        "expert_load": (2.0,),
    }
    others = [
        {"preset": "zaya1-8b"},
        {"data.micro_batch": 1},
        {"data.accumulate": 8},
        {"compute.loss_chunk": 256},
    ]
    others_records = [
        make_record(
            "zaya1.memory",
            params=step_params(job, {}) | other,
            world=WORLD,
            series=series,
            id=str(number),
        )
        for number, other in enumerate(others)
    ]
    assert space_of(job, [*records, *others_records]).memory.doubts()


def test_points_of_whole_steps_keep_the_accumulation(job: Job) -> None:
    config = job.with_keys({"data.accumulate": 4})
    params = step_params(
        replace(job, config=config), {"launch.ranks": 2, "compute.loss_chunk": 256}
    )
    assert (
        params["data.accumulate"] == 4
        and params["compute.loss_chunk"] == 256
        and "launch.ranks" not in params
    )


def test_only_the_knobs_that_were_asked_for_are_weighed(job: Job, records) -> None:
    tuned = tune(replace(job, only=("buckets",)), records, Settings(), confirm_by_runs=False)
    assert list(tuned.config.choices) == ["ddp.bucket_cap_mb"]
    with pytest.raises(PlanError, match="magic"):
        replace(job, only=("magic",))


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("collective.all_reduce", "mi300bench collectives"),
        ("overlap", "mi300bench overlap"),
        ("zaya1.backward", "autotune"),
    ],
)
def test_a_store_without_a_curve_says_which_command_measures_it(
    job: Job, records, missing: str, command: str
) -> None:
    with pytest.raises(RecordError) as caught:
        tune(job, [r for r in records if r.probe != missing], Settings(), confirm_by_runs=False)
    assert command in caught.value.hint


def test_records_of_two_devices_are_refused(job: Job, records, make_record) -> None:
    other = make_record(
        "collective.all_reduce",
        params={"bytes": 4, "dtype": "float32"},
        ranks=2,
        device="another",
        work=Work(message_bytes=4),
    )
    with pytest.raises(RecordError, match="do not compare"):
        tune(job, [*records, other], Settings(), confirm_by_runs=False)


def test_one_rank_has_no_buckets_and_all_other_knobs(job: Job, timeline) -> None:
    alone = replace(job, world=ALONE)
    assert not [point for point in points_of(alone) if point.probe.startswith("collective")]
    stored = [
        timeline(default_layout(alone)),
        timeline(default_layout(alone), **{"compute.experts": "loop"}),
    ]
    tuned = tune(alone, stored, Settings(), confirm_by_runs=False)
    assert (
        "ddp.bucket_cap_mb" not in tuned.config.choices
        and "compute.experts" in tuned.config.choices
    )


def test_rounds_are_added_once_if_three_cannot_prove_a_relevant_gain(
    monkeypatch, job: Job, make_record
) -> None:
    runs = []
    seconds = {0: [1.25, 1.11, 1.13, 1.12, 1.11, 1.12], 1: [1.0, 0.97, 1.0, 0.99, 1.0, 0.98]}

    def scripted(plan, settings) -> Measured:
        start = 3 * len(runs)
        runs.append(plan)
        records = tuple(
            make_record(
                "zaya1.step",
                params=dict(point.params),
                samples=(seconds[arm][start + number],) * 3,
                pass_index=number,
                point=point.key,
                world=point.world,
                work=Work(flop=1e9),
                id=f"{arm}-{start + number}",
            )
            for arm, point in enumerate(plan.points)
            for number in range(3)
        )
        return Measured(run="r", path=Path("r"), records=records, tally=Tally())

    monkeypatch.setattr(confirming, "measure", scripted)
    knob = Candidate(options={"experts": Option()})
    wanted = [
        Arm(candidate=knob),
        Arm(candidate=knob.with_option("experts", Option(keys={"compute.experts": "loop"}))),
    ]
    messages: list[str] = []

    def confirmed(settings: Settings) -> confirming.FreshRuns:
        return confirm(
            job.trainer,
            wanted,
            lambda one, stop: strategy_of(job).step_point(job, one, stop),
            rounds=3,
            step_s=1.0,
            settings=settings,
        )

    fresh = confirmed(Settings(say=messages.append))
    assert len(runs) == 2 and len(messages) == 1
    assert fresh.decision is not None and fresh.decision.rounds == 6 and fresh.decision.pick == 1
    assert len(fresh.evidence[1]) == 6
    # A clear answer needs no more.
    runs.clear()
    seconds[0] = [1.5, 1.51, 1.49]
    assert confirmed(Settings()).decision.rounds == 3 and len(runs) == 1


def test_a_short_budget_drops_candidates_before_samples(monkeypatch) -> None:
    def left(seconds: float) -> Settings:
        monkeypatch.setattr(Settings, "remaining_s", lambda self: seconds)
        return Settings()

    arms, stop = affordable(left(1000.0), 1.0, arms=3, rounds=3)
    assert arms == 3 and stop.max_seconds == confirming.MOST_SAMPLING_S
    arms, stop = affordable(left(90.0), 1.0, arms=3, rounds=3)
    assert arms == 2 and stop.max_seconds == pytest.approx(6.0)
    assert affordable(left(1.0), 1.0, arms=3, rounds=3)[0] == 2


@pytest.mark.alone
@pytest.mark.torch
@pytest.mark.timeout(1100)
def test_the_whole_job_leaves_a_store_a_config_and_a_report(tmp_path: Path) -> None:
    """A machine that is too slow for the budget is told which one is enough, and that is."""
    command = [sys.executable, "-m", "mi300bench", "autotune", "zaya1", "--preset", "tiny"]
    options = ["--device", "cpu", "--node", "n1", "--budget"]

    def run(budget: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options, budget],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_BUDGET_S + 50,
        )

    answer = run("100s")
    enough = re.search(r"--budget (\d+)s or more", answer.stderr)
    if answer.returncode == 2 and enough and int(enough[1]) <= LONGEST_BUDGET_S:
        answer = run(f"{enough[1]}s")
    assert answer.returncode == 0, answer.stderr
    tuned = tuned_config.read(tmp_path / "tuned.toml")
    assert tuned.choices["ddp.bucket_cap_mb"].evidence
    text = (tmp_path / "report.html").read_text()
    assert "<h1>n1:" in text and 'id="reproduce"' in text
    assert ('id="against"' in text) == (tuned.confirmed is not None)


def test_a_budget_that_is_too_short_says_which_one_is_enough(make_record, tmp_path: Path) -> None:
    """Every choice needs nine points; three took 10 s, and measuring gets 0.45 of a budget."""
    records = tuple(make_record(id=f"r{i}") for i in range(3))
    measured = Measured(
        run="r", path=tmp_path / "r.jsonl", records=records, tally=Tally(ok=3, left_out=6)
    )
    with pytest.raises(PlanError, match="6 of 9 ") as caught:
        require_basis(measured, 9, seconds=10.0, budget_s=22.0)
    assert "--budget 80s" in caught.value.hint and "r.jsonl" in caught.value.hint
    require_basis(replace(measured, tally=Tally(ok=3)), 9, seconds=10.0, budget_s=22.0)
