"""The published formulas behind every derived figure.

Collectives follow nccl-tests (doc/PERFORMANCE.md): algbw = S / t, busbw = algbw * factor. S is the
total size: the output of an all_gather, the input of a reduce_scatter.
"""

from mi300bench.errors import PlanError

_FULL_RING = {"all_reduce": 2.0}
_HALF_RING = ("all_gather", "reduce_scatter", "all_to_all")
_ONE_WAY = ("broadcast", "send_recv")
COLLECTIVES = (*_FULL_RING, *_HALF_RING, *_ONE_WAY)


def busbw_factor(op: str, ranks: int) -> float:
    """Return busbw over algbw of collective `op` among `ranks`."""
    if op in _FULL_RING:
        return 2.0 * (ranks - 1) / ranks
    if op in _HALF_RING:
        return (ranks - 1) / ranks
    if op in _ONE_WAY:
        return 1.0
    raise PlanError(f"unknown collective {op!r}", hint=f"choose one of {', '.join(COLLECTIVES)}")


def algbw(message_bytes: float, seconds: float) -> float:
    """Return S / t in bytes per second."""
    return message_bytes / seconds


def busbw(op: str, message_bytes: float, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth in bytes per second, comparable with a link's rate."""
    return algbw(message_bytes, seconds) * busbw_factor(op, ranks)


def hops(op: str, ranks: int, *, backend: str = "") -> int:
    """Return the number of one-way delays of a small `op` in a ring of `ranks`.

    The probes chain one-way operations (the root of a broadcast rotates, send and receive
    alternate), so each of these costs one hop. gloo's TCP transport sends only after the receiver
    has signalled that it is ready. Where both sides send at once, as in the gathering operations,
    this signal costs one more hop (measured with two ranks).
    """
    busbw_factor(op, ranks)
    if op in _FULL_RING:
        return 2 * (ranks - 1)
    if op in _ONE_WAY:
        return 1
    ready_signal = 1 if backend == "gloo" else 0
    return ready_signal + (ranks - 1 if op == "all_gather" else 1)


def nic_rate(op: str, busbw_bytes_per_second: float, *, nodes: int, ranks: int) -> float:
    """Return the bytes per second that a rank sends to other nodes; `ranks` is the total.

    With k nodes and n ranks: busbw * (k-1)/(n-1) for ring operations, and
    busbw * (n - n/k)/(n-1) for all_to_all.
    """
    if op == "all_to_all":
        return busbw_bytes_per_second * (ranks - ranks / nodes) / (ranks - 1)
    return busbw_bytes_per_second * (nodes - 1) / (ranks - 1)


def tcp_goodput(rate_bits_per_second: float) -> float:
    """Return the payload bytes per second of TCP (timestamps on) over Ethernet frames at MTU 1500.

    A frame of 1514 bytes carries 1448 payload bytes; a token bucket counts the frame.
    """
    return rate_bits_per_second / 8 * 1448 / 1514


def gemm_flop(m: int, n: int, k: int) -> float:
    """Return the FLOP of an M x N x K product; K is the reduction, a multiply-add is 2 FLOP."""
    return 2.0 * m * n * k


def model_flops_utilisation(
    flop: float, seconds: float, peak_flop_per_second: float | None
) -> float | None:
    """Return the MFU, or None if the peak is unknown."""
    return None if peak_flop_per_second is None else flop / seconds / peak_flop_per_second
