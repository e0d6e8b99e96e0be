"""Exports of a config on a mesh.

MaxText's keys are as its own classes have them, the environment is as a shell reads it.
"""

import subprocess
from dataclasses import replace

import pytest
import yaml
from mi300bench.api.exporting import export
from mi300bench.errors import PlanError
from mi300bench.export.targets import targets_of
from mi300bench.hw import xla_flags
from mi300bench.schema.config import TunedConfig
from tests.samples import tuned

from mi300bench_training.lora405b.spec import TRAINER
from mi300bench_training.zaya1.spec import TRAINER as ZAYA1

# Keys with their types of MaxText's MaxTextConfig and LoRA (src/maxtext/configs/types.py, commit
# e591f30): its package is not on PyPI. The exported file was also read by those classes themselves
# when this was written.
KEYS = {
    "base_config": str, "model_name": str, "hardware": str, "ici_data_parallelism": int,
    "ici_fsdp_parallelism": int, "ici_tensor_parallelism": int, "per_device_batch_size": float,
    "gradient_accumulation_steps": int, "max_target_length": int, "packing": bool,
    "remat_policy": str, "scan_layers": bool, "dtype": str, "weight_dtype": str, "use_sft": bool,
    "lora": dict, "opt_type": str, "learning_rate": float, "learning_rate_final_fraction": float,
    "warmup_steps_fraction": float, "adam_b1": float, "adam_b2": float, "adam_weight_decay": float,
    "gradient_clipping_threshold": float, "steps": int, "init_weights_seed": int,
}  # fmt: skip
LORA_KEYS = {"enable_lora": bool, "lora_rank": int, "lora_alpha": float, "lora_module_path": str}


def made(kind: str = "rocm", **changed) -> TunedConfig:
    """A tuned config of the 405B preset with `changed` keys (dots as double underscores)."""
    keys = {name.replace("__", "."): value for name, value in changed.items()}
    config = TRAINER.to_tables(TRAINER.override(TRAINER.preset("405b"), keys))
    return replace(tuned(), trainer="lora405b", config=config, device_kind=kind, ranks=8)


def test_maxtext_has_the_mesh_the_batch_and_the_adapters() -> None:
    exported = export(
        made(mesh__fsdp=2, mesh__mp=4, data__batch=16, data__accumulate=2, data__seq_len=2048),
        "maxtext",
    )
    read = yaml.safe_load(exported.text)
    assert {name: type(value) for name, value in read.items()} == KEYS
    assert {name: type(value) for name, value in read["lora"].items()} == LORA_KEYS
    assert (
        read["ici_data_parallelism"],
        read["ici_fsdp_parallelism"],
        read["ici_tensor_parallelism"],
    ) == (1, 2, 4)
    whole = read["per_device_batch_size"] * 8 * read["gradient_accumulation_steps"]
    assert whole == 16 and read["max_target_length"] == 2048
    assert (
        read["model_name"] == "llama3.1-405b"
        and read["remat_policy"] == "full"
        and read["dtype"] == "bfloat16"
    )
    assert (
        read["lora"]["lora_module_path"].count("|") == 6
        and "mlp/wi_0" in read["lora"]["lora_module_path"]
    )


def test_what_maxtext_cannot_express_is_said() -> None:
    exported = export(
        made(
            lora__targets=("q_proj", "lm_head"),
            lora__rslora=True,
            lora__dropout=0.1,
            compute__remat="none",
            compute__unroll=2,
            compute__loss_chunk=512,
            launch__memory_fraction=0.9,
        ),
        "maxtext",
    )
    said = " ".join(exported.notes)
    for what in (
        "lm_head",
        "rslora",
        "dropout=0.1",
        "minimal_with_context keeps the most",
        "unroll=2",
        "loss_chunk=512",
        "--to env",
        "dataset_type",
    ):
        assert what in said and what in exported.text


def test_the_environment_is_what_a_shell_reads_and_jax_knows() -> None:
    text = export(made(launch__memory_fraction=0.9, launch__combine_bytes=2**26), "env").text
    command = f'{text}\nprintf "%s|%s" "$XLA_CLIENT_MEM_FRACTION" "$XLA_FLAGS"'
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    fraction, flags = answer.stdout.split("|")
    assert fraction == "0.9" and flags.split() == list(xla_flags.combining(2**26))
    pytest.importorskip("jax")
    assert xla_flags.unknown(flags.split()) == ()
    kept = export(made(), "env")
    assert not [line for line in kept.text.splitlines() if not line.startswith("#")]
    assert any("XLA_CLIENT_MEM_FRACTION" in note for note in kept.notes)


def test_a_target_of_the_other_trainer_lists_what_there_is() -> None:
    own = targets_of(TRAINER.settings(TRAINER.preset("405b"), 8))
    assert own == ("maxtext", "env")
    with pytest.raises(PlanError, match=r"lora405b .* 'ddp'") as raised:
        export(made(), "ddp")
    assert all(name in raised.value.hint for name in own)
    zaya1 = replace(tuned(), config=ZAYA1.to_tables(ZAYA1.preset("small")))
    with pytest.raises(PlanError, match=r"zaya1 .* 'maxtext'") as raised:
        export(zaya1, "maxtext")
    assert "maxtext" not in raised.value.hint
