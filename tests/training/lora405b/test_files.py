"""Weights and adapters on disk, as Hugging Face and PEFT keep them; damaged files are named."""

import json
from pathlib import Path

import numpy as np
import pytest
from mi300bench.errors import NodeError, PlanError, RecordError

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

import jax.numpy as jnp  # noqa: E402
from tests.training.lora405b.hugging_face import CONFIG, reference, weights_of  # noqa: E402

from mi300bench_training.history import RunHistory  # noqa: E402
from mi300bench_training.lora405b import adapters, model, sharding, step  # noqa: E402
from mi300bench_training.lora405b.config import MeshConfig  # noqa: E402
from mi300bench_training.lora405b.data import Cursor  # noqa: E402
from mi300bench_training.lora405b.files import checkpoint, peft_files, weights  # noqa: E402
from mi300bench_training.lora405b.files.checkpoint import LoraRun  # noqa: E402
from mi300bench_training.lora405b.spec import TRAINER  # noqa: E402

SPLIT = TRAINER.override(CONFIG, {"mesh.dp": 2, "mesh.fsdp": 2, "mesh.mp": 2, "data.batch": 8})


@pytest.fixture(scope="module")
def theirs():
    return reference()


@pytest.fixture(scope="module")
def trained():
    drawn = adapters.draw(CONFIG.model, CONFIG.lora, jax.random.key(1))
    return jax.device_get(
        jax.tree.map(lambda x: x + 0.05 * jax.random.normal(jax.random.key(2), x.shape), drawn)
    )


@pytest.fixture(scope="module")
def tokens():
    return np.random.default_rng(0).integers(0, CONFIG.model.vocab, (2, 24))


def logits(frozen, low, tokens):
    return np.asarray(model.logits(CONFIG, frozen, low, jnp.asarray(tokens)))


def test_peft_opens_our_adapter_and_gives_our_logits(
    theirs, trained, tokens, tmp_path: Path
) -> None:
    import copy

    peft_files.save(tmp_path / "adapter", trained, CONFIG.model, CONFIG.lora)
    wrapped = peft.PeftModel.from_pretrained(
        copy.deepcopy(theirs), str(tmp_path / "adapter")
    ).eval()
    with torch.no_grad():
        expected = wrapped(torch.tensor(tokens)).logits.numpy()
    assert np.abs(logits(weights_of(theirs), trained, tokens) - expected).max() < 1e-4


def test_we_open_peft_s_adapter_and_give_its_logits(theirs, tokens, tmp_path: Path) -> None:
    import copy

    lora = peft.LoraConfig(
        r=4,
        lora_alpha=12,
        target_modules=["q_proj", "down_proj"],
        use_rslora=True,
        lora_dropout=0.0,
        bias="none",
    )
    torch.manual_seed(3)
    wrapped = peft.get_peft_model(copy.deepcopy(theirs), lora).eval()
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.05)
    wrapped.save_pretrained(str(tmp_path / "theirs"))
    ours = peft_files.load_config(tmp_path / "theirs")
    assert ours.targets == ("q_proj", "down_proj") and ours.scale == pytest.approx(12 / 2)
    config = TRAINER.override(
        CONFIG,
        {f"lora.{name}": getattr(ours, name) for name in ("rank", "alpha", "rslora", "targets")},
    )
    low = peft_files.load(tmp_path / "theirs", config.model, config.lora)
    logits = np.asarray(
        model.logits(
            config, weights_of(theirs), jax.tree.map(jnp.asarray, low), jnp.asarray(tokens)
        )
    )
    with torch.no_grad():
        assert np.abs(logits - wrapped(torch.tensor(tokens)).logits.numpy()).max() < 1e-4


def test_a_hugging_face_folder_is_read_shard_by_shard_onto_a_mesh(
    theirs, tokens, tmp_path: Path
) -> None:
    theirs.save_pretrained(str(tmp_path), max_shard_size="200KB")
    assert (tmp_path / weights.INDEX).exists() and len(list(tmp_path.glob("*.safetensors"))) > 2
    read = weights.load(tmp_path, SPLIT, sharding.make_mesh(SPLIT.mesh))
    for one, other in zip(jax.tree.leaves(read), jax.tree.leaves(weights_of(theirs)), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


def test_missing_extra_misshapen_and_truncated_tensors_are_named(theirs, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    theirs.save_pretrained(str(tmp_path))
    path = tmp_path / weights.SINGLE
    whole = load_file(str(path))
    mesh = sharding.make_mesh(MeshConfig(), jax.devices()[:1])

    def failing(tensors) -> str:
        save_file(tensors, str(path))
        with pytest.raises(RecordError) as caught:
            weights.load(tmp_path, CONFIG, mesh)
        return str(caught.value)

    name = "model.layers.2.mlp.up_proj.weight"
    assert name in failing({key: value for key, value in whole.items() if key != name})
    assert "surplus" in failing(whole | {"surplus": np.zeros(3, np.float32)})
    message = failing(whole | {name: np.zeros((3, 128), np.float32)})
    assert name in message and "[3, 128]" in message
    save_file(whole, str(path))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(RecordError, match=path.name):
        weights.load(tmp_path, CONFIG, mesh)


def test_a_damaged_or_foreign_adapter_is_named(trained, tmp_path: Path) -> None:
    peft_files.save(tmp_path, trained, CONFIG.model, CONFIG.lora)
    peft_files.require_same(tmp_path, CONFIG.lora)
    for name, value in (
        ("alpha", 99.0),
        ("rslora", not CONFIG.lora.rslora),
        ("rank", 4),
        ("targets", ("q_proj",)),
    ):
        with pytest.raises(PlanError, match=f"lora.{name}="):
            peft_files.require_same(
                tmp_path, TRAINER.override(CONFIG, {f"lora.{name}": value}).lora
            )
    with pytest.raises(RecordError, match=r"lora_[AB]"):  # of the layers that are no targets
        peft_files.load(
            tmp_path, CONFIG.model, TRAINER.override(CONFIG, {"lora.targets": ("q_proj",)}).lora
        )
    with pytest.raises(RecordError, match=r"\(4, "):
        peft_files.load(tmp_path, CONFIG.model, TRAINER.override(CONFIG, {"lora.rank": 4}).lora)
    (tmp_path / peft_files.CONFIG).write_text(
        json.dumps({"peft_type": "IA3", "r": 1, "lora_alpha": 1, "target_modules": []})
    )
    with pytest.raises(RecordError, match="IA3"):
        peft_files.load_config(tmp_path)
    good = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}
    for more, named in (
        ({"use_dora": True}, "use_dora"),
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"modules_to_save": ["embed_tokens"]}, "modules_to_save"),
        ({"target_modules": "all-linear"}, "'all-linear'"),
        ({"target_modules": ["wte"]}, "'wte'"),
        ({"r": "many"}, peft_files.CONFIG),
    ):
        (tmp_path / peft_files.CONFIG).write_text(json.dumps(good | more))
        with pytest.raises(RecordError, match=named):
            peft_files.load_config(tmp_path)


def run_at(step_number: int, state) -> LoraRun:
    history = RunHistory(
        losses=[1.0] * step_number,
        seconds=[0.1] * step_number,
        series={"busy": [0.5] * step_number},
    )
    state = state | {"step": np.int32(step_number)}
    return LoraRun(state=state, cursor=Cursor(row=step_number), history=history)


@pytest.fixture(scope="module")
def new_state():
    return jax.device_get(step.new_state(CONFIG, jax.random.key(4)))


@pytest.fixture(scope="module")
def fresh():
    """A state of the same form with other values."""
    return jax.device_get(step.new_state(CONFIG, jax.random.key(9)))


def test_a_checkpoint_puts_every_array_back_on_any_mesh(tmp_path: Path, new_state, fresh) -> None:
    run = run_at(4, new_state)
    checkpoint.save(tmp_path, CONFIG, run, text="t")
    for config in (CONFIG, TRAINER.override(CONFIG, {"mesh.mp": 2})):
        saved = checkpoint.load(tmp_path, config, fresh, text="t")
        assert saved is not None
        assert saved.cursor == run.cursor and saved.history == run.history
        assert jax.tree.structure(saved.state["optimizer"]) == jax.tree.structure(
            run.state["optimizer"]
        )
        pairs = zip(jax.tree.leaves(saved.state), jax.tree.leaves(run.state), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, new_state, fresh) -> None:
    checkpoint.save(tmp_path, CONFIG, run_at(4, new_state), text="t")
    with pytest.raises(PlanError, match="seed"):
        checkpoint.load(tmp_path, TRAINER.override(CONFIG, {"seed": 7}), fresh, text="t")
    with pytest.raises(PlanError, match="text"):
        checkpoint.load(tmp_path, CONFIG, fresh, text="another")


def test_a_damaged_checkpoint_is_named_with_the_one_before_it(
    tmp_path: Path, new_state, fresh
) -> None:
    for number in (3, 4):
        checkpoint.save(tmp_path, CONFIG, run_at(number, new_state), text="t")
    checkpoint.check(tmp_path)
    damaged = tmp_path / "step-00000004" / checkpoint.OPTIMIZER
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(RecordError, match=checkpoint.OPTIMIZER) as caught:
        checkpoint.load(tmp_path, CONFIG, fresh, text="t")
    assert "step-00000003" in caught.value.hint
    with pytest.raises(RecordError, match="step-00000004"):
        checkpoint.check(tmp_path)


def test_a_full_disk_leaves_no_part_of_a_checkpoint(tmp_path: Path, new_state) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file grows beyond this, as if the disk were full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(NodeError):
            checkpoint.save(tmp_path, CONFIG, run_at(1, new_state), text="t")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
