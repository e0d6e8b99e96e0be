"""The tuner of a trainer on a mesh: from records, from published figures, and a small real job."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mi300bench.errors import PlanError, RecordError
from mi300bench.hw import xla_flags
from mi300bench.measurement.settings import Settings
from mi300bench.physics import busbw_factor
from mi300bench.published.figures import published_device
from mi300bench.schema import config as tuned_config
from mi300bench.schema.config import ChoiceBasis
from mi300bench.schema.doubt import Modelled
from mi300bench.schema.record import Origin, Work, World
from mi300bench.schema.run_settings import Mesh
from mi300bench.store.reader import read_records
from mi300bench.strategies.base import Space
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh import compile_step, jax_client
from mi300bench.strategies.mesh.compile_step import CompiledStep
from mi300bench.strategies.mesh.memory import DeviceMemory
from mi300bench.strategies.mesh.placement import (
    belongs,
    mesh_of,
    possible_meshes,
    seen_config,
    seen_world,
    step_params,
)
from mi300bench.strategies.mesh.stages import mesh_products, run_options, stages
from mi300bench.strategies.table import strategy_of
from mi300bench.trainers.registry import spec_of
from mi300bench.tuning import tune as loop
from mi300bench.tuning.confirm import FreshRuns
from mi300bench.tuning.from_published import tune_from_published
from mi300bench.tuning.tune import tune

LORA = spec_of("lora405b")
GPUS = World(device="rocm", ranks=8, framework="jax")
MI300X_BYTES = 206_141_652_992.0


def job_of(preset: str = "405b", world: World = GPUS, **parts) -> Job:
    keys = {"mesh.fsdp": world.ranks} | parts.pop("keys", {})
    config = LORA.override(LORA.preset(preset), keys)
    return Job(spec=LORA, config=config, world=world, **parts)


def curves(make_record, *, busbw: float = 336e9, latency: float = 20e-6, **parts):
    """Records of the collectives in a ring at `busbw`, and one product at half an MI300X's peak."""
    links = [
        make_record(
            f"jax.collective.{op}",
            params={"bytes": size, "dtype": "float32"},
            ranks=ranks,
            world=replace(GPUS, ranks=ranks),
            samples=(latency + size * busbw_factor(op, ranks) / busbw,) * 5,
            work=Work(message_bytes=size),
            **parts,
        )
        for op in ("all_gather", "all_reduce")
        for ranks in (2, 4, 8)
        for size in (2**14, 2**18, 2**22, 2**26, 2**30)
    ]
    n = 8192
    params = {"m": n, "n": n, "k": n, "layout": "nn", "dtype": "bfloat16"}
    product = make_record(
        "jax.gemm",
        params=params,
        samples=(2 * n**3 / 600e12,) * 5,
        work=Work(flop=2 * n**3),
        **parts,
    )
    return [*links, product]


@pytest.fixture
def no_compiler(monkeypatch):
    """Keep the lower bound of the memory, because these tests are about the choice."""
    monkeypatch.setattr(DeviceMemory, "compiled", lambda self, candidate: None)


def space_of(job: Job, records) -> Space:
    return strategy_of(job).space(job, records, Settings())


def tuned_for(make_record, tokens: int, remat: str):
    keys = {"data.batch": 8, "data.seq_len": tokens // 8, "compute.remat": remat}
    # Without a limit of memory: what it may hold is not the question here.
    job = job_of(keys=keys, only=("mesh",))
    return tune(job, curves(make_record), Settings(), confirm_by_runs=False)


@pytest.mark.parametrize("remat", ["none", "full"])
def test_mp_wins_a_thousand_tokens_and_fsdp_wins_far_above(
    make_record, no_compiler, remat: str
) -> None:
    few = tuned_for(make_record, 1024, remat).config
    # dp 8 would communicate least, but does not fit into memory; the next test covers that.
    alone = [
        a
        for a in few.choices["mesh.dp"].alternatives
        if str(a.value).startswith("dp 1,") or a.value == 1
    ]
    assert str(alone[0].value) == "dp 1, fsdp 1, mp 8"
    many = tuned_for(make_record, 2**19, remat).config
    rows = [
        a
        for a in many.choices["mesh.dp"].alternatives
        if str(a.value).startswith("dp 1,") or a.value == 1
    ]
    assert rows[0].value == 1  # the default: dp 1, fsdp 8, mp 1
    assert all(
        record in {r.id for r in curves(make_record)} for record in few.choices["mesh.dp"].evidence
    )


def test_a_mesh_that_holds_too_much_is_not_picked(make_record, no_compiler) -> None:
    job = job_of(
        memory_limit=MI300X_BYTES, only=("mesh",), keys={"data.batch": 8, "data.seq_len": 128}
    )
    tuned = tune(job, curves(make_record), Settings(), confirm_by_runs=False).config
    assert tuned.config["mesh"] == {"dp": 1, "fsdp": 1, "mp": 8}
    assert tuned.choices["mesh.mp"].basis is ChoiceBasis.PREDICTED and tuned.confirmed is None
    with pytest.raises(PlanError, match=r"GiB of 953\.7 MiB") as raised:
        tune(replace(job, memory_limit=1e9), curves(make_record), Settings(), confirm_by_runs=False)
    assert "--memory-limit" in raised.value.hint


def test_what_was_not_measured_is_not_weighed_and_noted(make_record, no_compiler) -> None:
    tuned = tune(job_of(), curves(make_record), Settings(), confirm_by_runs=False)
    assert not [knob for knob in tuned.knobs if knob.name in ("unroll", "attention_block")]
    assert any("unroll 2" in note for note in tuned.notes)
    remats = tuned.config.choices["compute.remat"].alternatives
    assert {a.value for a in remats} == {
        "none",
        "dots",
        "full",
    }  # weighed by FLOP, with a note each
    assert len([note for note in tuned.notes if note.startswith("compute.remat=")]) == 2


def test_missing_curves_and_products_name_the_command(make_record, no_compiler) -> None:
    records = curves(make_record)
    with pytest.raises(RecordError, match="all_gather among 8") as raised:
        tune(
            job_of(), [r for r in records if r.world.ranks != 8], Settings(), confirm_by_runs=False
        )
    assert "mi300bench autotune lora405b" in raised.value.hint
    with pytest.raises(RecordError, match="bfloat16") as raised:
        tune(
            job_of(),
            [r for r in records if r.probe != "jax.gemm"],
            Settings(),
            confirm_by_runs=False,
        )
    assert "mi300bench autotune lora405b --preset 405b" in raised.value.hint


def test_what_the_compiler_refuses_is_searched_around(make_record, monkeypatch) -> None:
    asked: list[str] = []

    def compiled(spec, configs):
        for config in configs:
            asked.append(f"{config.mesh.mp} {config.compute.remat}")
            temp = 300e9 if config.compute.remat == "none" or config.mesh.mp == 8 else 1e9
            parts = dict.fromkeys(("weights", "adapters", "optimizer", "output", "alias"), 1e9)
            figures = {
                **parts,
                "arguments": 1e11,
                "temp": temp,
                "flop": 1e12,
                "received": {},
                "collectives": {},
                "compile_s": 1.0,
            }
            settings = spec.settings(config, 8)
            yield CompiledStep(
                config=config,
                mesh=settings.mesh,
                batch=settings.batch,
                precision=settings.precision,
                figures=figures,
            )

    monkeypatch.setattr(compile_step, "compile_all", compiled)
    monkeypatch.setattr(
        compile_step,
        "keep",
        lambda spec, steps, settings: [(s, make_record("lora405b.plan")) for s in steps],
    )
    job = job_of(memory_limit=MI300X_BYTES, only=("mesh", "remat"))
    tuned = tune(job, curves(make_record), Settings(), confirm_by_runs=False)
    assert asked[0].startswith("8 ") and len(asked) > 2
    assert tuned.config.config["mesh"]["mp"] == 4  # the next best once mp 8 was refused
    assert tuned.config.choices["launch.memory_fraction"].value == 0.0


def test_a_pool_is_raised_where_the_step_needs_it_and_not_beyond() -> None:
    assert jax_client.memory_fraction(0.70 * MI300X_BYTES, MI300X_BYTES) == 0.0
    assert jax_client.memory_fraction(0.80 * MI300X_BYTES, MI300X_BYTES) == pytest.approx(0.85)
    assert jax_client.memory_fraction(0.99 * MI300X_BYTES, MI300X_BYTES) == 0.95


@pytest.mark.slow
def test_collectives_are_joined_up_to_where_latency_is_a_tenth() -> None:
    size = jax_client.combine_bytes(20e-6, 300e9, 1e9)
    assert 20e-6 / (20e-6 + size / 300e9) == pytest.approx(0.1, rel=0.05) and size % 2**20 == 0
    assert jax_client.combine_bytes(20e-6, 300e9, 1e6) == 0  # even a whole layer is too small
    pytest.importorskip("jax")
    assert xla_flags.unknown(xla_flags.combining(2**20)) == ()
    assert xla_flags.unknown(("--xla_gpu_no_such_flag=1", *xla_flags.combining(1))) == (
        "--xla_gpu_no_such_flag=1",
    )


@pytest.mark.slow
def test_published_figures_give_a_labelled_config_of_the_whole_405b(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    job = job_of(memory_limit=MI300X_BYTES)
    tuned = tune_from_published(job, published_device("mi300x"), Settings(store=tmp_path)).config
    assert tuned.origin == "modelled" and tuned.config["mesh"] == {"dp": 1, "fsdp": 1, "mp": 8}
    assert tuned.choices["mesh.mp"].basis is ChoiceBasis.PREDICTED
    stored = list(read_records(tmp_path))
    assert all(record.origin is Origin.MODELLED for record in stored)
    published = {r.id for r in stored if any(isinstance(doubt, Modelled) for doubt in r.doubts)}
    assert published & set(tuned.choices["mesh.mp"].evidence)
    assert {"jax.gemm", "lora405b.plan", "jax.collective.all_gather"} <= {
        record.probe for record in stored
    }
    four = next(
        r
        for r in strategy_of(job).published_records(job, published_device("mi300x"))
        if r.world.ranks == 4
    )
    assert "3 times the busbw of a pair" in four.doubts[0].source  # type: ignore[attr-defined]


VIRTUAL = World(device="cpu", ranks=8, framework="jax")


def virtual_job(**parts) -> Job:
    return job_of("bench", VIRTUAL, keys={"mesh.fsdp": 4, "mesh.mp": 2}, **parts)


def test_virtual_devices_are_seen_one_at_a_time_and_their_collectives_are_emulated(
    make_record,
) -> None:
    job = virtual_job()
    named = {stage.purpose: stage.points for stage in stages(job)}
    (step,) = named["the default's step"]
    assert (
        step.world.ranks == 1 and step.params["data.batch"] == 1 and step.params["mesh.fsdp"] == 1
    )
    assert {p.world.ranks for p in named["collectives among the devices"]} == {2, 4, 8}
    assert all(p.world.ranks == 1 for p in named["products of the meshes"])
    emulated = make_record(origin=Origin.EMULATED, source="virtual devices on one CPU", ranks=8)
    assert belongs(emulated, job, Settings()) and not belongs(
        replace(emulated, origin=Origin.MEASURED), job, Settings()
    )
    assert belongs(make_record(), job, Settings())


def test_a_real_mesh_runs_whole_and_only_what_divides_is_weighed() -> None:
    job = job_of()
    (step,) = {stage.purpose: stage.points for stage in stages(job)}["the default's step"]
    assert step.world.ranks == 8 and step.params["mesh.fsdp"] == 8
    assert len(possible_meshes(job)) == 10 and possible_meshes(job)[0] == Mesh(dp=1, fsdp=8, mp=1)
    assert [m.mp for m in possible_meshes(virtual_job())] == [
        2,
        2,
        2,
    ]  # two key-value heads, four sequences
    for mesh in possible_meshes(job):  # whatever the mesh, a device multiplies the same
        flop = sum(2 * m * n * k * count for m, n, k, _, count in mesh_products(job, mesh))
        assert flop == pytest.approx(
            sum(2 * m * n * k * c for m, n, k, _, c in mesh_products(job, mesh_of(job)))
        )


def seen_records(make_record, job: Job, **stretch: float):
    """Records of one device's steps, each change times its factor, and of the collectives."""
    flop = LORA.describe(job.config).flop_per_token * 512

    def step(keys, factor):
        params = step_params(job, keys)
        return make_record(
            "lora405b.step",
            params=params,
            world=seen_world(job),
            samples=(0.2 * factor,) * 5,
            work=Work(flop=flop),
            id=repr(params),
        )

    changes = [
        step(keys, stretch.get(label, 1.05))
        for knob, options in run_options(job).items()
        if knob.name != "shapes"
        for keys in options
        for label in [f"{key.rpartition('.')[2]}_{value}" for key, value in keys.items()]
    ]
    shared = {"origin": Origin.EMULATED, "source": "virtual devices on one CPU"}
    slow = {"all_gather": stretch.get("slow_gather", 1.0)}
    links = [
        replace(
            r,
            world=replace(r.world, device="cpu"),
            **shared,
            samples=tuple(s * slow.get(r.probe.rpartition(".")[2], 1.0) for s in r.samples),
        )
        for r in curves(make_record)
        if r.probe != "jax.gemm"
    ]
    return [step({}, 1.0), *changes, *links]


def test_single_changes_multiply_and_the_mesh_is_not_confirmable_here(
    make_record, no_compiler, monkeypatch
) -> None:
    job = virtual_job(keep_shapes=True)
    records = seen_records(make_record, job, attention_block_64=0.8, unroll_2=0.9, slow_gather=50.0)
    space = space_of(job, records)
    both = space.default.with_option("attention_block", _option(space, "attention_block", 64))
    both = both.with_option("unroll", _option(space, "unroll", 2))
    assert space.observed_predictor.predict(both).value.mid == pytest.approx(0.2 * 0.8 * 0.9)
    ran: list[str] = []

    def confirm(trainer, wanted, point_of, **rest):
        ran.extend(arm.candidate.label for arm in wanted)
        return FreshRuns(arms=wanted)

    monkeypatch.setattr(loop, "confirm", confirm)
    tuned = tune(job, records, Settings()).config
    assert all("dp" not in label for label in ran) and ran  # only what one device shows is run
    assert (
        tuned.config["compute"]["attention_block"] == 64 and tuned.config["compute"]["unroll"] == 2
    )
    assert tuned.choices["mesh.dp"].basis is ChoiceBasis.PREDICTED and tuned.origin == "emulated"
    (reason,) = strategy_of(job).unobservable(job).values()
    choice = tuned.choices["mesh.dp"]
    assert reason in choice.why and reason in choice.doubts and reason in tuned.doubts
    document = tuned_config.to_document(tuned)
    assert tuned_config.from_document(document, name="x").choices.keys() == tuned.choices.keys()


def test_lengths_that_compute_as_fast_are_predicted_as_fast(make_record, no_compiler) -> None:
    """Longer sequences have more FLOP; at one rate no length is better for the same work."""
    job = job_of(
        "bench",
        World(device="cpu", ranks=1, framework="jax"),
        only=("shapes",),
        keys={"data.batch": 8},
    )
    records = []
    for keys in ({}, *run_options(job)[LORA.knob("shapes")]):
        params = step_params(job, keys)
        config = seen_config(job, keys)
        flop = LORA.describe(config).flop_per_token * config.data.batch * config.data.seq_len
        records.append(
            make_record(
                "lora405b.step",
                params=params,
                world=seen_world(job),
                samples=(flop / 1e11,) * 5,
                work=Work(flop=flop),
                id=repr(params),
            )
        )
    space = space_of(job, records)
    (knob,) = [knob for knob in space.knobs if knob.name == "shapes"]
    rates = [
        space.predictor.predict(c).value.mid / c.work
        for c in (space.default.with_option("shapes", o) for o in knob.options)
    ]
    assert len(rates) > 2 and max(rates) == pytest.approx(min(rates), rel=1e-6)


def _option(space, name: str, value):
    knob = next(knob for knob in space.knobs if knob.name == name)
    return next(option for option in knob.options if value in option.keys.values())


@pytest.mark.slow
def test_options_that_a_trainer_does_not_have_are_named() -> None:
    for arguments, named in (
        (["--micro-batch", "2"], "--micro-batch"),
        (["--param-tolerance", "0.1"], "--param-tolerance"),
        (["--batch", "3", "--ranks", "8"], "mp=8"),
        (["--preset", "9b"], "9b"),
    ):
        command = [
            sys.executable,
            "-m",
            "mi300bench",
            "tune",
            "lora405b",
            "--no-confirm",
            *arguments,
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert answer.returncode == 2 and named in answer.stderr, answer.stderr
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "tune", "zaya1", "--batch", "8"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2 and "--batch" in answer.stderr


@pytest.mark.alone
def test_the_whole_job_on_one_device_for_real(tmp_path: Path) -> None:
    """Measure, search, compile, confirm: `tiny` on one CPU device, one knob."""
    pytest.importorskip("jax")
    command = [
        sys.executable,
        "-m",
        "mi300bench",
        "autotune",
        "lora405b",
        "--preset",
        "tiny",
        "--ranks",
        "1",
    ]
    options = [
        "--only",
        "attention_block",
        "--budget",
        "120s",
        "--store",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path),
    ]
    answer = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=240
    )
    assert answer.returncode == 0, answer.stderr
    tuned = tuned_config.read(tmp_path / "tuned.toml")
    assert tuned.confirmed is not None and tuned.confirmed.runs >= 3 and tuned.origin == "measured"
    assert set(tuned.choices) == {"compute.attention_block"}
    stored = {record.id for record in read_records(tmp_path / "runs")}
    assert set(tuned.choices["compute.attention_block"].evidence) <= stored
    page = (tmp_path / "report.html").read_text()
    assert 'id="plans"' in page and "lora405b" in page
