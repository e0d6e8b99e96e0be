"""Our LoRA step against Hugging Face and PEFT: same shape, weights drawn anew, interleaved.

    python -m tests.peers.lora_speed

Eight layers of width 512, vocabulary 8192, four rows of 512 tokens, on all cores. The floor is the
time of the step's own matrix products at XLA's measured rate: forward and input gradient of every
weight, each product timed by itself.
"""

import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import peft
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from mi300bench_training.lora405b import model as llama
from mi300bench_training.lora405b import shapes, step
from mi300bench_training.lora405b.spec import TRAINER

ROUNDS, STEPS = 5, 2
BENCH = TRAINER.preset("bench")


def ours(precision: str) -> Callable[[], None]:
    """Return one step of ours, compiled and warm."""
    config = TRAINER.override(BENCH, {"precision": precision})
    weights = llama.draw(config, jax.random.key(0))
    held = {"state": step.new_state(config, jax.random.key(1))}
    tokens = np.random.default_rng(0).integers(0, config.model.vocab, (4, 513))
    batch = {
        "tokens": jnp.asarray(tokens[:, :-1]),
        "targets": jnp.asarray(tokens[:, 1:]),
        "documents": jnp.zeros((4, 512), jnp.int32),
    }
    run = jax.jit(step.step_function(config, None), donate_argnums=1)

    def one() -> None:
        held["state"], told = run(weights, held["state"], batch)
        told["loss"].block_until_ready()
        jax.block_until_ready(held["state"])

    one()
    return one


def theirs(kind: torch.dtype) -> Callable[[], None]:
    """Return one step of Hugging Face with PEFT, warm."""
    m = BENCH.model
    config = LlamaConfig(
        vocab_size=m.vocab,
        hidden_size=m.hidden,
        intermediate_size=m.ffn,
        num_hidden_layers=m.layers,
        num_attention_heads=m.heads,
        num_key_value_heads=m.kv_heads,
        head_dim=m.head_dim,
        tie_word_embeddings=False,
    )
    lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules=list(BENCH.lora.targets), bias="none")
    wrapped = peft.get_peft_model(LlamaForCausalLM(config).to(kind), lora)
    learned = [p for p in wrapped.parameters() if p.requires_grad]
    rule = torch.optim.AdamW(learned, lr=3e-4)
    tokens = torch.randint(0, m.vocab, (4, 512))

    def one() -> None:
        wrapped(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        rule.step()
        rule.zero_grad(set_to_none=True)

    one()
    return one


def floor_seconds(precision: str) -> float:
    """Return the seconds of the step's products as XLA runs each, forward and input gradient."""
    kind, total = jnp.dtype(precision), 0.0
    product = jax.jit(lambda a, b: a @ b)
    for gemm in shapes.gemms(BENCH.model, 2048):
        for m, n, k in ((gemm.m, gemm.n, gemm.k), (gemm.m, gemm.k, gemm.n)):
            a, b = jnp.ones((m, k), kind), jnp.ones((k, n), kind)
            product(a, b).block_until_ready()
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                product(a, b).block_until_ready()
                seconds.append(time.perf_counter() - start)
            total += gemm.count * statistics.median(seconds)
    return total


def main() -> int:
    """Print tokens per second of both, their ratio, and our step over its floor.

    0 where float32 is at least as fast and within 2.2 of its floor.
    """
    result = 0
    for precision, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        sides = {"ours": ours(precision), "hugging face + peft": theirs(kind)}
        seconds: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(ROUNDS):
            for name in list(sides) if number % 2 == 0 else list(sides)[::-1]:
                start = time.perf_counter()
                for _ in range(STEPS):
                    sides[name]()
                seconds[name].append((time.perf_counter() - start) / STEPS)
        took = {name: statistics.median(each) for name, each in seconds.items()}
        floor, ratio = floor_seconds(precision), took["hugging face + peft"] / took["ours"]
        print(
            f"{precision}: ours {2048 / took['ours']:.0f} tokens/s, "
            f"Hugging Face + PEFT {2048 / took['hugging face + peft']:.0f}: ratio {ratio:.2f}; "
            f"our step is {took['ours'] / floor:.2f} of its products' floor of {floor:.3f} s"
        )
        result = result or int(
            precision == "float32" and (ratio < 1.0 or took["ours"] > 2.2 * floor)
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
