"""Every target, in its own units, read back by the real package that consumes it."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from mi300bench.api.exporting import TARGETS, export
from mi300bench.errors import PlanError
from mi300bench.export import deepspeed, env, megatron
from mi300bench.export.source import ExportSource
from mi300bench.export.targets import targets_of
from mi300bench.schema.config import TunedConfig
from tests.samples import tuned

from mi300bench_training.zaya1.spec import TRAINER

PRESET = TRAINER.preset("small")
OF_ZAYA1 = targets_of(TRAINER.settings(PRESET, 2))


def made(**changed) -> TunedConfig:
    """A tuned config of zaya1 small on two ranks; keys with double underscores for dots."""
    keys = {"launch.ranks": 2, "launch.threads": 1} | {
        name.replace("__", "."): value for name, value in changed.items()
    }
    config = TRAINER.to_tables(TRAINER.override(PRESET, keys))
    return replace(tuned(), config=config, device_kind="cpu", ranks=2)


def with_caps(caps) -> TunedConfig:
    return made(ddp__bucket_cap_mb=caps)


def source_of(config: TunedConfig) -> ExportSource:
    """What an exporter is handed of a tuned config."""
    run = TRAINER.settings(TRAINER.from_tables(config.config), config.ranks or 1)
    return ExportSource(tuned=config, run=run)


def test_zaya1_has_every_target_but_those_of_a_mesh() -> None:
    assert set(TARGETS) - set(OF_ZAYA1) == {"maxtext"}


@pytest.mark.parametrize("target", OF_ZAYA1)
def test_what_a_target_cannot_express_is_said_and_provenance_comes_along(target: str) -> None:
    exported = export(
        made(compute__loss_chunk=128, compute__experts="loop", ddp__bucket_cap_mb=[1.0, 50.0]),
        target,
    )
    said = exported.text + " ".join(exported.notes)
    assert "1,50 against the default: faster" in said
    if target in ("ddp", "deepspeed", "megatron", "torchtitan", "accelerate"):
        assert "compute.loss_chunk=128" in said and "compute.experts=loop" in said


@pytest.mark.torch
@pytest.mark.parametrize(
    ("caps", "limits"),
    [
        ("default", (2**20, 25 * 2**20)),
        (0.5, (2**19,)),
        (5.0, (5 * 2**20,)),
        ([1.0, 50.0], (2**20, 50 * 2**20)),
    ],
)
def test_ddp_runs_and_uses_the_buckets_that_were_tuned(caps, limits, monkeypatch) -> None:
    import torch
    import torch.distributed as dist

    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        names = {"model": torch.nn.Linear(8, 8)}
        exec(compile(export(with_caps(caps), "ddp").text, "exported.py", "exec"), names)
        wrapped = names["model"]
        if isinstance(caps, list):
            assert tuple(wrapped.bucket_bytes_cap_list) == limits
        else:
            config = wrapped._bucket_config
            used = (config.first_bucket_bytes_cap, config.bucket_bytes_cap)
            assert tuple(dict.fromkeys(used)) == limits
    finally:
        dist.destroy_process_group()


@pytest.mark.torch
def test_deepspeed_reads_elements_and_the_batch_it_was_given(tmp_path: Path, monkeypatch) -> None:
    runtime = pytest.importorskip("deepspeed.runtime.config")
    monkeypatch.setattr(runtime.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(runtime.dist, "get_world_size", lambda: 2)
    path = tmp_path / "ds.json"
    path.write_text(
        export(
            made(data__micro_batch=2, data__accumulate=2, ddp__bucket_cap_mb=50.0), "deepspeed"
        ).text
    )
    config = runtime.DeepSpeedConfig(str(path))
    assert config.zero_config.reduce_bucket_size == 50 * 2**20 // 4
    assert (
        config.train_micro_batch_size_per_gpu == 2
        and config.gradient_accumulation_steps == 2
        and config.train_batch_size == 8
    )
    assert config.zero_config.overlap_comm is True and int(config.zero_config.stage) == 1


def test_deepspeed_writes_the_kept_default_out_and_says_so() -> None:
    source = source_of(with_caps("default"))
    assert deepspeed.document(source)["zero_optimization"]["reduce_bucket_size"] == 25 * 2**20 // 4
    assert any("25 MiB" in note for note in deepspeed.export(source).notes)


@pytest.mark.slow
@pytest.mark.torch
def test_megatron_counts_parameters_and_keeps_the_bucket_alive() -> None:
    core = pytest.importorskip("megatron.core.distributed")
    options = megatron.arguments(
        source_of(made(ddp__bucket_cap_mb=[1.0, 40.0], compute__recompute="block"))
    )
    config = core.DistributedDataParallelConfig(
        bucket_size=int(options["--ddp-bucket-size"]),
        overlap_grad_reduce="--overlap-grad-reduce" in options,
        grad_reduce_in_fp32="--accumulate-allreduce-grads-in-fp32" in options,
    )
    assert (
        config.bucket_size == 40 * 2**20 // 4
        and config.overlap_grad_reduce
        and config.grad_reduce_in_fp32
    )
    from megatron.core.transformer import TransformerConfig

    model = TransformerConfig(
        num_layers=1,
        hidden_size=8,
        num_attention_heads=1,
        recompute_granularity=options["--recompute-granularity"],
        recompute_method=options["--recompute-method"],
        recompute_num_layers=int(options["--recompute-num-layers"]),
    )
    assert model.recompute_granularity == "full"
    text = export(made(precision="bfloat16"), "megatron").text
    words = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert (
        ["--bf16"] in words
        and ["--global-batch-size", "8"] in words
        and all(w[0].startswith("--") for w in words)
    )


@pytest.mark.torch
def test_torchtitan_reads_its_job_config(tmp_path: Path) -> None:
    config = pytest.importorskip("torchtitan.config")
    path = tmp_path / "job.toml"
    path.write_text(
        export(
            made(data__micro_batch=2, compute__recompute="block", precision="bfloat16"),
            "torchtitan",
        ).text
    )
    job = config.ConfigManager().parse_args(["--job.config_file", str(path)])
    assert (
        job.training.local_batch_size,
        job.training.global_batch_size,
        job.training.seq_len,
    ) == (2, 4, 128)
    assert (
        job.training.mixed_precision_param == "bfloat16"
        and job.activation_checkpoint.mode == "full"
    )
    assert (
        job.parallelism.data_parallel_replicate_degree,
        job.parallelism.data_parallel_shard_degree,
    ) == (2, 1)
    assert "bucket size" in path.read_text() and "25 MiB" in path.read_text()


@pytest.mark.torch
def test_accelerate_reads_its_config_file_and_the_code_beside_it_runs(tmp_path: Path) -> None:
    arguments = pytest.importorskip("accelerate.commands.config.config_args")
    from accelerate import DistributedDataParallelKwargs

    path = tmp_path / "accelerate.yaml"
    exported = export(
        made(ddp__bucket_cap_mb=10.0, data__micro_batch=2, data__accumulate=2), "accelerate"
    )
    path.write_text(exported.text)
    config = arguments.load_config_from_file(str(path))
    assert config.num_processes == 2 and config.mixed_precision == "no" and config.use_cpu
    assert str(config.distributed_type.value) == "MULTI_CPU"
    handler = eval(
        "DistributedDataParallelKwargs("
        + exported.text.split("DistributedDataParallelKwargs(")[1].split(")")[0]
        + ")"
    )
    assert isinstance(handler, DistributedDataParallelKwargs) and handler.bucket_cap_mb == 10.0
    assert yaml.safe_load(exported.text)["num_processes"] == 2


def test_env_is_what_a_shell_sets() -> None:
    config = replace(
        made(),
        environment={"NCCL_ALGO": "Ring Tree", "TORCHELASTIC_X": "1", "OMP_NUM_THREADS": "7"},
    )
    assert env.variables(source_of(config)) == {"NCCL_ALGO": "Ring Tree", "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(
        ["sh", "-c", export(config, "env").text + 'echo "$NCCL_ALGO/$OMP_NUM_THREADS"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == "Ring Tree/1"


def test_launch_files_are_shell_and_start_every_rank() -> None:
    for target in ("torchrun", "sbatch"):
        text = export(made(), target).text
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
        assert "--nproc-per-node=2" in text and "OMP_NUM_THREADS=1" in text
    assert "#SBATCH --cpus-per-task=2" in export(made(), "sbatch").text
    assert (
        "#SBATCH --gpus-per-node=8"
        in export(replace(made(launch__ranks=8), device_kind="rocm"), "sbatch").text
    )


def test_an_unknown_target_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        export(made(), "abacus")
    assert "ddp" in caught.value.hint


def test_a_config_without_a_table_cannot_be_exported() -> None:
    whole = made().config
    for incomplete, missing in (
        ({name: table for name, table in whole.items() if name != "ddp"}, "ddp"),
        ({}, "preset"),
    ):
        with pytest.raises(PlanError, match=missing):
            export(replace(made(), config=incomplete), "ddp")


def test_a_config_older_than_a_key_takes_the_default_and_notes_it() -> None:
    whole = made().config
    compute = {key: value for key, value in whole["compute"].items() if key != "loss_chunk"}
    exported = export(replace(made(), config=whole | {"compute": compute}), "ddp")
    assert any("compute.loss_chunk" in note and "0" in note for note in exported.notes)
    assert not any("compute.loss_chunk" in note for note in export(made(), "ddp").notes)


def test_json_is_json() -> None:
    assert json.loads(export(made(), "deepspeed").text)["train_batch_size"] == 8
