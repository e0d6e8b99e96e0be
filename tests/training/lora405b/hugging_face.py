"""Hugging Face's Llama with random weights, and its weights as our tree."""

import jax
import jax.numpy as jnp
import numpy as np
import torch

from mi300bench_training.lora405b.config import LAYER_TARGETS, TARGETS
from mi300bench_training.lora405b.spec import TRAINER

CONFIG = TRAINER.override(
    TRAINER.preset("tiny"),
    # An original length of 64 puts wavelengths on both sides of the scaling and into its ramp.
    {
        "model.rope_original_length": 64,
        "data.seq_len": 40,
        "data.batch": 2,
        "compute.attention_block": 24,
        "lora.targets": TARGETS,
    },
)
TORCH_NAMES = {name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")} | {
    name: f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")
}


def reference():
    """Hugging Face's model of the same shape, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    m = CONFIG.model
    torch.manual_seed(0)
    rope = {
        "rope_type": "llama3",
        "rope_theta": m.rope_theta,
        "factor": m.rope_factor,
        "low_freq_factor": m.rope_low_frequency,
        "high_freq_factor": m.rope_high_frequency,
        "original_max_position_embeddings": m.rope_original_length,
    }
    config = LlamaConfig(
        vocab_size=m.vocab,
        hidden_size=m.hidden,
        intermediate_size=m.ffn,
        num_hidden_layers=m.layers,
        num_attention_heads=m.heads,
        num_key_value_heads=m.kv_heads,
        head_dim=m.head_dim,
        rms_norm_eps=m.norm_eps,
        rope_theta=m.rope_theta,
        rope_scaling=rope,
        rope_parameters=rope,
        tie_word_embeddings=False,
        attention_bias=False,
        max_position_embeddings=512,
    )
    return LlamaForCausalLM(config).eval().float()


def weights_of(theirs):
    """Our tree of a Hugging Face model's weights."""
    state = {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}

    def stacked(name: str, *, turned: bool) -> np.ndarray:
        rows = [state[f"model.layers.{i}.{name}.weight"] for i in range(CONFIG.model.layers)]
        return np.stack([row.T if turned else row for row in rows])

    layers = {name: stacked(TORCH_NAMES[name], turned=True) for name in LAYER_TARGETS}
    layers |= {
        "attention_norm": stacked("input_layernorm", turned=False),
        "mlp_norm": stacked("post_attention_layernorm", turned=False),
    }
    tree = {
        "embed": state["model.embed_tokens.weight"],
        "layers": layers,
        "norm": state["model.norm.weight"],
        "lm_head": state["lm_head.weight"].T,
    }
    return jax.tree.map(jnp.asarray, tree)
