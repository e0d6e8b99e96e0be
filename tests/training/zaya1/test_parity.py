"""Our model against transformers' `ZayaForCausalLM`: equal logits and gradients."""

import pytest

from mi300bench_training.zaya1.config import ZayaConfig, ZayaModelConfig

pytestmark = pytest.mark.torch
MODEL = ZayaModelConfig(
    vocab=97,
    hidden=64,
    blocks=3,
    heads=4,
    kv_heads=2,
    head_dim=16,
    experts=4,
    expert_width=32,
    router_width=16,
    skip="zero",
    rope_base=10_000.0,
)
# Ours, theirs: prefixes and suffixes of parameter names.
NAMES = {
    "embedding.weight": "model.embed_tokens.weight",
    "input_scale": "model.input_hidden_states_scale",
    "input_bias": "model.input_hidden_states_bias",
    "final_norm.weight": "model.norm.weight",
}
BLOCK_NAMES = {
    "attention_norm.weight": "input_layernorm.weight",
    "attention.query.weight": "self_attn.qkv_proj.q_proj.weight",
    "attention.key.weight": "self_attn.qkv_proj.k_proj.weight",
    "attention.value_now.weight": "self_attn.qkv_proj.v_proj_current.weight",
    "attention.value_before.weight": "self_attn.qkv_proj.v_proj_delayed.weight",
    "attention.depthwise.weight": "self_attn.qkv_proj.conv_qk_depthwise.weight",
    "attention.depthwise.bias": "self_attn.qkv_proj.conv_qk_depthwise.bias",
    "attention.grouped.weight": "self_attn.qkv_proj.conv_qk_grouped.weight",
    "attention.grouped.bias": "self_attn.qkv_proj.conv_qk_grouped.bias",
    "attention.temperature": "self_attn.qk_norm.temp",
    "attention.output.weight": "self_attn.o_proj.weight",
    "expert_norm.weight": "post_attention_layernorm.weight",
    "router.down.weight": "mlp.gate.down_proj.weight",
    "router.down.bias": "mlp.gate.down_proj.bias",
    "router.state_scale": "mlp.gate.router_states_scale",
    "router.norm.weight": "mlp.gate.router_mlp.norm.weight",
    "router.inner1.weight": "mlp.gate.router_mlp.fc1.weight",
    "router.inner1.bias": "mlp.gate.router_mlp.fc1.bias",
    "router.inner2.weight": "mlp.gate.router_mlp.fc2.weight",
    "router.inner2.bias": "mlp.gate.router_mlp.fc2.bias",
    "router.logits.weight": "mlp.gate.router_mlp.out_proj.weight",
    "experts.up": "mlp.experts.gate_up_proj",
    "experts.down": "mlp.experts.down_proj",
}
JOINS = {
    "attention_join": "post_attention_residual_scale",
    "expert_join": "post_mlp_residual_scale",
}
JOIN_NAMES = {
    "output_scale": "hidden_states_scale",
    "output_bias": "hidden_states_bias",
    "residual_scale": "residual_scale",
    "residual_bias": "residual_bias",
}


def theirs_of(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    _, index, rest = name.split(".", 2)
    join, _, part = rest.partition(".")
    inside = f"{JOINS[join]}.{JOIN_NAMES[part]}" if join in JOINS else BLOCK_NAMES[rest]
    return f"model.layers.{index}.{inside}"


@pytest.fixture(scope="module")
def pair():
    import torch
    import transformers

    from mi300bench_training.zaya1.model import build

    rope = {
        "rope_type": "default",
        "rope_theta": MODEL.rope_base,
        "partial_rotary_factor": MODEL.rope_fraction,
    }
    theirs = transformers.ZayaForCausalLM(
        transformers.ZayaConfig(
            vocab_size=MODEL.vocab,
            hidden_size=MODEL.hidden,
            num_hidden_layers=MODEL.blocks,
            num_attention_heads=MODEL.heads,
            num_key_value_heads=MODEL.kv_heads,
            head_dim=MODEL.head_dim,
            num_experts=MODEL.experts,
            moe_intermediate_size=MODEL.expert_width,
            router_hidden_size=MODEL.router_width,
            rms_norm_eps=MODEL.norm_eps,
            rope_parameters={"hybrid": rope, "hybrid_sliding": rope},
            pad_token_id=None,
            use_cache=False,
            attn_implementation="eager",
        )
    ).train()
    ours = build(ZayaConfig(preset="parity", model=MODEL, seed=5), device="cpu")
    generator = torch.Generator().manual_seed(7)
    there = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            # Scales and biases away from 1 and 0, so that none of them can be missing unnoticed.
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter + 0.1 * noise if parameter.dim() < 2 else parameter * 3)
            # So that tokens differ, and choose differently.
            parameter.mul_(
                10
                if name == "embedding.weight"
                else 8
                if ".router." in name and parameter.dim() == 2
                else 1
            )
            there[theirs_of(name)].copy_(parameter)
        for index, block in enumerate(ours.blocks):
            block.router.balance.copy_(0.02 * torch.randn(MODEL.experts + 1, generator=generator))
            theirs.model.layers[index].mlp.gate.balancing_biases.copy_(block.router.balance)
    return ours, theirs


def test_every_parameter_has_its_counterpart(pair) -> None:
    ours, theirs = pair
    mapped = {theirs_of(name) for name, _ in ours.named_parameters()}
    assert mapped == {name for name, _ in theirs.named_parameters()}


def test_logits_agree(pair) -> None:
    import torch

    ours, theirs = pair
    tokens = torch.randint(0, MODEL.vocab, (3, 19), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        difference = (ours(tokens) - theirs(tokens).logits).abs().max()
    assert float(difference) < 1e-4
    used = torch.cat([block.router.chosen_N for block in ours.blocks]).unique()
    assert len(used) == MODEL.experts + 1, "the drawn weights must use every expert and the skip"


def test_all_gradients_agree(pair) -> None:
    import torch
    import torch.nn.functional as F

    ours, theirs = pair
    tokens = torch.randint(0, MODEL.vocab, (3, 20), generator=torch.Generator().manual_seed(2))
    inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
    F.cross_entropy(ours(inputs).flatten(0, 1), targets).backward()
    F.cross_entropy(theirs(inputs).logits.flatten(0, 1), targets).backward()
    there = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        difference = (parameter.grad - there[theirs_of(name)].grad).abs().max()
        assert float(difference) < 1e-4, name


def test_the_whole_8b_model_counts_the_same() -> None:
    import torch
    import transformers

    from mi300bench_training.zaya1 import shapes
    from mi300bench_training.zaya1.spec import TRAINER

    with torch.device("meta"):
        theirs = transformers.ZayaForCausalLM(transformers.ZayaConfig())
    assert (
        sum(p.numel() for p in theirs.parameters())
        == shapes.describe(TRAINER.preset("zaya1-8b")).total_elements
    )
