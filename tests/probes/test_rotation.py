"""Operands of cold products that take turns."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from mi300bench.schema.record import Scalar

CACHE = 2**20


def probe(*, is_asynchronous: bool = False, **params: Scalar) -> Any:
    from mi300bench.probes.gemm import GemmProbe

    device = SimpleNamespace(
        torch_name="cpu",
        flush_bytes=2 * CACHE,
        is_asynchronous=is_asynchronous,
        fp8="float8_e4m3fn",
    )
    sizes: dict[str, Scalar] = {"m": 96, "n": 64, "k": 33, "layout": "nt", "dtype": "float32"}
    made = GemmProbe(sizes | params, SimpleNamespace(rank=0, ranks=1, device=device))
    made.prepare()
    return made


@pytest.mark.torch
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_between_two_turns_of_an_operand_the_others_move_twice_the_cache(layout, dtype) -> None:
    cold = probe(layout=layout, dtype=dtype)
    assert not cold.cold  # no flush, so a sample is a batch
    seen = []
    while not seen or cold.a.data_ptr() != seen[0][0] or len(seen) == 1:
        cold.call()
        assert cold.check() == ""
        seen.append(tuple(part.data_ptr() for part in (cold.a, cold.b, cold.c)))
    turns = seen[:-1]
    moved = sum(part.numel() * part.element_size() for part in (cold.a, cold.b, cold.c))
    assert (len(turns) - 1) * moved >= 2 * CACHE
    starts = sorted(pointer for turn in turns for pointer in turn)
    assert len(set(starts)) == 3 * len(turns)
    assert all(b - a >= 33 * 64 * cold.a.element_size() for a, b in pairwise(starts))


@pytest.mark.torch
def test_a_gpu_a_tiny_product_and_a_hot_one_have_one_set_of_operands() -> None:
    assert probe(is_asynchronous=True).cold
    assert probe(m=2, n=2, k=2).cold
    hot = probe(cache="hot")
    assert not hot.cold
    pointers = set()
    for _ in range(3):
        hot.call()
        pointers.add(hot.a.data_ptr())
    assert len(pointers) == 1
