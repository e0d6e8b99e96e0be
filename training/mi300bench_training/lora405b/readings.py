"""Readings of this process in each step: bytes of live arrays, share of busy cores."""

import os
import resource
import time

import jax


def live_bytes() -> float:
    """Return the bytes of live arrays on the first local device, without the rest of the pool."""
    device = jax.local_devices()[0]
    stats = device.memory_stats()
    if stats and "bytes_in_use" in stats:
        return float(stats["bytes_in_use"])
    shards = (shard for array in jax.live_arrays() for shard in array.addressable_shards)
    return float(sum(shard.data.nbytes for shard in shards if shard.device == device))


class Stopwatch:
    """Measures the seconds of a step, and the share of this process's cores that were busy."""

    def __init__(self) -> None:
        self._begin, self._processor = time.perf_counter(), _processor_seconds()

    def stop(self) -> tuple[float, float]:
        """Return the seconds and the busy share since the start."""
        seconds = time.perf_counter() - self._begin
        cores = len(os.sched_getaffinity(0))
        return seconds, (_processor_seconds() - self._processor) / seconds / cores


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
