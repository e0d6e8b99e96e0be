"""The model against Hugging Face's Llama and PEFT, on random weights."""

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

import jax.numpy as jnp  # noqa: E402
from tests.training.lora405b.hugging_face import CONFIG, reference, weights_of  # noqa: E402

from mi300bench_training.lora405b import adapters, model, step  # noqa: E402
from mi300bench_training.lora405b.attention import attention  # noqa: E402
from mi300bench_training.lora405b.config import TARGETS  # noqa: E402
from mi300bench_training.lora405b.sharding import Placing  # noqa: E402
from mi300bench_training.lora405b.spec import TRAINER  # noqa: E402


@pytest.fixture(scope="module")
def pair():
    theirs = reference()
    drawn = adapters.draw(CONFIG.model, CONFIG.lora, jax.random.key(1))
    # B is zero at the start; a trained one is not.
    drawn = jax.tree.map(lambda x: x + 0.05 * jax.random.normal(jax.random.key(2), x.shape), drawn)
    return theirs, weights_of(theirs), drawn


@pytest.fixture(scope="module")
def tokens():
    return np.random.default_rng(0).integers(0, CONFIG.model.vocab, (2, 41))


def batch_of(tokens):
    """Rows of one document each."""
    inputs, targets = jnp.asarray(tokens[:, :-1]), jnp.asarray(tokens[:, 1:])
    return {"tokens": inputs, "targets": targets, "documents": jnp.zeros(inputs.shape, jnp.int32)}


@partial(jax.jit, static_argnums=0)
def logits(config, weights, low, tokens, documents=None):
    """Return logits by one compiled program, which compiles sooner than each operation alone."""
    return model.logits(config, weights, low, tokens, documents)


@partial(jax.jit, static_argnums=0)
def loss(config, weights, low, batch, key=None):
    return step.loss(config, weights, low, batch, key, Placing())


@partial(jax.jit, static_argnums=0)
def loss_and_gradients(config, weights, low, batch):
    def of(low):
        return step.loss(config, weights, low, batch, None, Placing())

    return jax.value_and_grad(of)(low)


def matrix_of(tree, target: str, part: str, words: list[str]):
    """The matrix of a tree that PEFT's parameter of these words is."""
    if target == "lm_head":
        return tree["lm_head"][part]
    return tree["layers"][target][part][int(words[words.index("layers") + 1])]


def with_peft(theirs, drawn):
    """The Hugging Face model under PEFT, with our adapters."""
    import copy

    lora = peft.LoraConfig(
        r=CONFIG.lora.rank,
        lora_alpha=CONFIG.lora.alpha,
        target_modules=list(CONFIG.lora.targets),
        lora_dropout=0.0,
        bias="none",
    )
    wrapped = peft.get_peft_model(copy.deepcopy(theirs), lora).eval()
    for name, parameter in wrapped.named_parameters():
        if "lora_" not in name:
            continue
        words = name.split(".")
        target = next(word for word in words if word in TARGETS)
        part = "a" if "lora_A" in words else "b"
        parameter.data = torch.tensor(np.asarray(matrix_of(drawn, target, part, words)).T.copy())
    return wrapped


def test_logits_agree_with_hugging_face(pair, tokens) -> None:
    theirs, weights, _ = pair
    plain = {"layers": {}}
    ours = np.asarray(logits(CONFIG, weights, plain, jnp.asarray(tokens[:, :-1])))
    with torch.no_grad():
        expected = theirs(torch.tensor(tokens[:, :-1])).logits.numpy()
    assert np.abs(ours - expected).max() < 1e-4


def test_adapter_gradients_agree_with_peft(pair, tokens) -> None:
    theirs, weights, drawn = pair
    wrapped = with_peft(theirs, drawn)
    inputs, targets = torch.tensor(tokens[:, :-1]), torch.tensor(tokens[:, 1:])
    out = wrapped(inputs).logits
    expected = torch.nn.functional.cross_entropy(out.flatten(0, 1), targets.flatten())
    expected.backward()
    batch = batch_of(tokens)
    for keys in (
        {},
        {"compute.loss_chunk": 13, "compute.remat": "none"},
        {"compute.remat": "dots", "compute.unroll": 2},
    ):
        config = TRAINER.override(CONFIG, keys)
        value, gradients = loss_and_gradients(config, weights, drawn, batch)
        assert float(value) == pytest.approx(float(expected.detach()), abs=1e-5)
        checked = 0
        for name, parameter in wrapped.named_parameters():
            if "lora_" not in name:
                assert parameter.grad is None
                continue
            words = name.split(".")
            target = next(word for word in words if word in TARGETS)
            part = "a" if "lora_A" in words else "b"
            mine = matrix_of(gradients, target, part, words)
            assert np.abs(np.asarray(mine).T - parameter.grad.numpy()).max() < 1e-4, name
            checked += 1
        assert checked == 2 * (4 * 7 + 1)


def test_merged_equals_unmerged_and_a_new_adapter_changes_nothing(pair, tokens) -> None:
    _, weights, drawn = pair
    inputs = jnp.asarray(tokens[:, :-1])
    adapted = logits(CONFIG, weights, drawn, inputs)
    merged = logits(CONFIG, adapters.merge(weights, drawn, CONFIG.lora), {"layers": {}}, inputs)
    assert np.abs(np.asarray(adapted - merged)).max() < 1e-4
    fresh = adapters.draw(CONFIG.model, CONFIG.lora, jax.random.key(5))
    plain = logits(CONFIG, weights, {"layers": {}}, inputs)
    assert np.abs(np.asarray(logits(CONFIG, weights, fresh, inputs) - plain)).max() == 0
    assert np.abs(np.asarray(adapted - plain)).max() > 1e-3


def test_only_b_has_a_gradient_at_first_and_a_follows(pair, tokens) -> None:
    _, weights, _ = pair
    fresh = adapters.draw(CONFIG.model, CONFIG.lora, jax.random.key(5))
    batch = batch_of(tokens)
    _, gradients = loss_and_gradients(CONFIG, weights, fresh, batch)
    assert float(jnp.abs(gradients["layers"]["q_proj"]["a"]).max()) == 0
    assert float(jnp.abs(gradients["layers"]["q_proj"]["b"]).max()) > 0


def test_a_document_does_not_see_the_one_before_it(pair, tokens) -> None:
    _, weights, drawn = pair
    row = jnp.asarray(tokens[:1, :40])
    documents = jnp.asarray([[0] * 19 + [1] * 21])
    packed = logits(CONFIG, weights, drawn, row, documents)
    alone = logits(CONFIG, weights, drawn, row[:, 19:])
    assert np.abs(np.asarray(packed[:, 19:] - alone)).max() < 1e-4
    assert model.positions_of(documents)[0, 18:21].tolist() == [18, 0, 1]


def test_attention_in_blocks_is_attention_and_so_is_its_gradient() -> None:
    draw = np.random.default_rng(1)
    query, key, value = (
        jnp.asarray(draw.normal(size=s), jnp.float32)
        for s in ((2, 30, 2, 3, 8), (2, 30, 2, 8), (2, 30, 2, 8))
    )
    documents = jnp.asarray(np.sort(draw.integers(0, 3, (2, 30)), axis=1))

    weight = jnp.asarray(draw.normal(size=query.shape), jnp.float32)

    def plain(query, key, value):
        scores = jnp.einsum("btghc,bsgc->bghts", query, key) * 8**-0.5
        seen = jnp.tril(jnp.ones((30, 30), bool))[None] & (
            documents[:, :, None] == documents[:, None, :]
        )
        return jnp.einsum(
            "bghts,bsgc->btghc",
            jax.nn.softmax(jnp.where(seen[:, None, None], scores, -1e30)),
            value,
        )

    def with_gradients(f):
        """Attended values, and the gradients of their weighted sum."""

        def total(*arguments):
            values = f(*arguments)
            return (values * weight).sum(), values

        run = jax.jit(jax.grad(total, argnums=(0, 1, 2), has_aux=True))
        gradients, values = run(query, key, value)
        return values, gradients

    plain_values, plain_gradients = with_gradients(plain)
    for block in (7, 30, 64):
        values, gradients = with_gradients(
            lambda q, k, v, block=block: attention(q, k, v, documents, block)
        )
        assert np.abs(np.asarray(values - plain_values)).max() < 1e-5
        for one, other in zip(gradients, plain_gradients, strict=True):
            assert np.abs(np.asarray(one - other)).max() < 2e-5


def test_dropout_is_drawn_again_in_each_step_and_only_for_adapters(pair, tokens) -> None:
    _, weights, drawn = pair
    config = TRAINER.override(CONFIG, {"lora.dropout": 0.5})
    batch = batch_of(tokens)
    values = [float(loss(config, weights, drawn, batch, jax.random.key(k))) for k in (1, 1, 2)]
    assert values[0] == values[1] != values[2]
    fresh = adapters.draw(CONFIG.model, CONFIG.lora, jax.random.key(5))
    still = {float(loss(config, weights, fresh, batch, jax.random.key(k))) for k in (1, 2)}
    assert len(still) == 1  # B is zero, so the dropped input does not matter
    # The head's adapter drops its input too, in pieces each for itself.
    config = TRAINER.override(config, {"lora.targets": ("lm_head",)})
    pair = {"a": drawn["lm_head"]["a"], "b": drawn["lm_head"]["b"]} if "lm_head" in drawn else None
    low = {
        "layers": {},
        "lm_head": pair or {"a": jnp.ones((128, 4)), "b": jnp.ones((4, CONFIG.model.vocab))},
    }
    for chunk in (0, 16):
        cut = TRAINER.override(config, {"compute.loss_chunk": chunk})
        seen = [
            float(loss(cut, weights, low, batch, key))
            for key in (*map(jax.random.key, (1, 1, 2)), None)
        ]
        assert seen[0] == seen[1] and len(set(seen)) == 3
