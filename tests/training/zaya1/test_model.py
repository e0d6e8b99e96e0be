import pytest
from mi300bench.errors import PlanError

from mi300bench_training.zaya1 import shapes
from mi300bench_training.zaya1.config import PRESETS, ZayaModelConfig
from mi300bench_training.zaya1.spec import TRAINER

pytestmark = pytest.mark.torch
SMALL = ZayaModelConfig(
    vocab=50,
    hidden=32,
    blocks=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    experts=4,
    expert_width=16,
    router_width=8,
)


def test_counts_of_the_8b_model_are_those_published() -> None:
    described = shapes.describe(TRAINER.preset("zaya1-8b"))
    assert described.total_elements == 8_840_488_784
    assert described.total_elements - described.embedding_elements == 8_303_355_728
    assert described.active_elements == 753_608_528


def test_counts_of_the_parts_are_those_of_the_report() -> None:
    model = TRAINER.preset("zaya1-8b").model
    by_part: dict[str, int] = {}
    for parameter in shapes.parameters(model):
        if parameter.name.startswith("blocks.1."):
            part = parameter.name.split(".")[2]
            by_part[part] = by_part.get(part, 0) + parameter.elements
    assert by_part["attention"] == 5_575_682
    assert by_part["experts"] == 201_326_592
    assert by_part["router"] == 660_736 + 256
    assert by_part["attention_join"] + by_part["expert_join"] == 2 * 4 * 2048


@pytest.mark.parametrize("name", PRESETS)
def test_the_shapes_are_those_of_the_module(name: str) -> None:
    import torch

    from mi300bench_training.zaya1.model import Zaya

    with torch.device("meta"):
        module = Zaya(TRAINER.preset(name).model)
    tensors = [(n, tuple(p.shape)) for n, p in module.named_parameters()]
    assert tensors == [(p.name, p.shape) for p in shapes.parameters(TRAINER.preset(name).model)]


def test_the_small_preset_is_as_large_as_a_bucket_study_needs() -> None:
    described = shapes.describe(TRAINER.preset("small"))
    assert 55e6 < described.total_elements < 65e6 and 4 * described.total_elements > 200e6


def config_of(**parts):
    """The small test model as a whole config; keys of a part in dotted form are not needed here."""
    from dataclasses import replace

    from mi300bench_training.zaya1.config import ZayaComputeConfig, ZayaConfig, ZayaDataConfig

    compute = ZayaComputeConfig(**parts.pop("compute", {}))
    data = ZayaDataConfig(seq_len=12, **parts.pop("data", {}))
    precision = parts.pop("precision", "float32")
    return ZayaConfig(
        preset="test",
        model=replace(SMALL, **parts),
        compute=compute,
        data=data,
        seed=3,
        precision=precision,
    )


def build(**parts):
    from mi300bench_training.zaya1.model import build as build_model

    return build_model(config_of(**parts), device="cpu")


def test_a_later_token_changes_nothing_before_it() -> None:
    import torch

    model = build()
    tokens = torch.randint(0, 50, (2, 12))
    before = model(tokens)
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 50
    after = model(changed)
    # Not bitwise: a changed choice of expert moves other tokens to other rows of the products.
    assert torch.allclose(before[:, :7], after[:, :7], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_a_key_sees_two_tokens_back_and_no_further() -> None:
    import torch

    attention = build().blocks[0].attention
    seen = []
    attention.grouped.register_forward_hook(lambda _m, _i, out: seen.append(out))
    x = torch.randn(1, 8, 32)
    attention(x)
    y = x.clone()
    y[:, 3] += 1.0
    attention(y)
    moved = (seen[0] - seen[1]).abs().amax(dim=(0, 1)) > 0
    assert moved.tolist() == [False] * 3 + [True] * 3 + [False] * 2


def test_skipped_tokens_give_their_input_or_zero() -> None:
    import torch

    for skip, expected in (("input", True), ("zero", False)):
        block = build(skip=skip).blocks[0]
        block.router.balance.fill_(-10.0)
        block.router.balance[-1] = 10.0
        seen = []
        block.expert_join.register_forward_pre_hook(
            lambda _m, args, seen=seen: seen.append(args[0])
        )
        block(torch.randn(1, 6, 32), None, torch.float32)
        assert bool(seen[0].abs().sum() > 0) is expected


def test_the_bias_moves_the_choice_and_not_the_weight() -> None:
    import torch

    router = build().blocks[0].router
    x = torch.randn(10, 32)
    chosen, weight, _ = router(x, None)
    router.balance[0] = 10.0
    forced, other, _ = router(x, None)
    assert (forced == 0).all() and not (chosen == 0).all()
    probability = torch.softmax(router.logits(torch.zeros(1, 8)), -1)
    assert (other < 1).all() and (weight <= 1).all() and probability.shape[-1] == 5
    assert not router.balance.requires_grad


def test_an_idle_expert_still_has_a_gradient_of_zero() -> None:
    import torch

    model = build()
    for block in model.blocks:
        block.router.balance[:] = -10.0
        block.router.balance[1] = 10.0
    model(torch.randint(0, 50, (1, 6))).sum().backward()
    gradient = model.blocks[0].experts.up.grad
    assert gradient is not None and gradient[0].abs().sum() == 0 and gradient[1].abs().sum() > 0
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_experts_agree_with_a_plain_loop() -> None:
    import torch
    import torch.nn.functional as F

    experts = build().blocks[0].experts
    x = torch.randn(30, 32, requires_grad=True)
    chosen = torch.randint(0, 5, (30,))
    out = experts(x, chosen, torch.float32)
    rows = []
    for token, expert in zip(x, chosen.tolist(), strict=True):
        if expert == 4:
            rows.append(torch.zeros(32))
            continue
        gate, up = (experts.up[expert] @ token).chunk(2)
        rows.append(experts.down[expert] @ (F.silu(gate) * up))
    expected = torch.stack(rows)
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)
    (ours,) = torch.autograd.grad(out.square().sum(), x, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_bfloat16_stays_near_float32() -> None:
    import torch

    tokens = torch.randint(0, 50, (2, 12))
    low = build(precision="bfloat16")(tokens).float()
    torch.testing.assert_close(low, build()(tokens), atol=0.02, rtol=0.1)


def test_the_config_survives_tables_and_refuses_nonsense() -> None:
    config = TRAINER.preset("small")
    assert TRAINER.from_tables(TRAINER.to_tables(config)) == config
    tables = TRAINER.to_tables(config)
    with pytest.raises(PlanError, match="colour"):
        TRAINER.from_tables(tables | {"colour": 1})
    with pytest.raises(PlanError, match="width"):
        TRAINER.from_tables(tables | {"model": tables["model"] | {"width": 1}})
    with pytest.raises(PlanError):
        TRAINER.from_tables({"preset": "small"})
    for key, value in (
        ("ddp.bucket_cap_mb", -1),
        ("ddp.bucket_cap_mb", []),
        ("ddp.bucket_cap_mb", True),
        ("steps", 0),
        ("data.micro_batch", 0),
        ("precision", "int3"),
        ("model.skip", "perhaps"),
        ("model.heads", 3),
    ):
        with pytest.raises(PlanError):
            TRAINER.override(config, {key: value})


def gradients_of(batches=1, **parts):
    """Return loss, gradients and expert counts of a step over 8 sequences in `batches` parts."""
    import torch

    from mi300bench_training.zaya1 import model, step

    config = config_of(data={"micro_batch": 8 // batches, "accumulate": batches}, **parts)
    built = model.build(config, device="cpu")
    with torch.no_grad():  # spread the load over experts and the skip
        for block in built.blocks:
            block.router.balance.zero_()
            block.router.logits.weight.mul_(500.0)
            block.router.down.weight.mul_(50.0)
    stepper = step.stepper(config, built, communicate=False)
    tokens = torch.randint(0, 50, (8, 13), generator=torch.Generator().manual_seed(1))
    loss = stepper.gradients((part[:, :-1], part[:, 1:]) for part in tokens.chunk(batches))
    return loss, {name: p.grad for name, p in built.named_parameters()}, stepper.balancer.counts


@pytest.mark.parametrize(
    "parts",
    [
        {"compute": {"experts": "padded"}},
        {"compute": {"experts": "loop"}},
        {"compute": {"recompute": "block"}},
        {"compute": {"loss_chunk": 7}},
        {"compute": {"experts": "padded", "recompute": "block", "loss_chunk": 5}, "batches": 4},
        {"batches": 2},
    ],
    ids=lambda parts: " ".join(f"{k}={v}" for k, v in parts.items()),
)
def test_another_way_of_computing_gives_the_same_gradients(parts) -> None:
    import torch

    loss, gradients, counts = gradients_of()
    other_loss, others, other_counts = gradients_of(**parts)
    assert torch.allclose(loss, other_loss, atol=1e-6) and torch.equal(counts, other_counts)
    assert counts[:, :4].count_nonzero() >= 6  # several experts are at work
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, others[name], atol=2e-6, rtol=1e-4), name


@pytest.mark.parametrize("experts", ["grouped", "padded", "loop"])
def test_an_idle_expert_and_a_batch_that_only_skips_have_gradients(experts: str) -> None:
    import torch

    built = build(compute={"experts": experts})
    tokens = torch.randint(0, 50, (2, 6))
    for favoured in (1, 4):  # one expert for all, then all skip
        with torch.no_grad():
            for block in built.blocks:
                block.router.balance.zero_()
                block.router.balance[favoured] = 10.0
        built.zero_grad()
        built(tokens, tokens).backward()
        assert built.blocks[0].experts.up.grad.isfinite().all()
        assert bool(built.blocks[0].experts.up.grad[1].any()) == (favoured == 1)


def test_what_cannot_be_computed_or_launched_is_refused() -> None:
    for key, value in (
        ("compute.experts", "magic"),
        ("compute.recompute", "some"),
        ("compute.loss_chunk", -1),
        ("data.accumulate", 0),
        ("launch.ranks", -1),
        ("compute.nothing", 1),
        ("model", 3),
    ):
        with pytest.raises(PlanError):
            TRAINER.override(TRAINER.preset("tiny"), {key: value})
