"""Records from published figures of a device: the products of the default mesh, the collectives."""

from collections.abc import Iterator
from dataclasses import replace

from mi300bench.physics import busbw_factor
from mi300bench.published.assumptions import LATENCY_S, STAND_INS
from mi300bench.published.figures import PublishedDevice, shares_of_peak
from mi300bench.schema.record import Measurement, Work
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.placement import mesh_of
from mi300bench.strategies.mesh.stages import COLLECTIVES, group_sizes, mesh_products
from mi300bench.units import GIB, MIB

SIZES = (8, 64 * 1024, MIB, 16 * MIB, 128 * MIB, GIB, 4 * GIB)


def records_of(job: Job, device: PublishedDevice) -> Iterator[Measurement]:
    """Yield the records; `PlanError` names a figure that is not published."""
    precision = job.settings.precision
    peak, alone = device.fact(precision), replace(job.world, ranks=1)
    for m, n, k, layout in dict.fromkeys(row[:4] for row in mesh_products(job, mesh_of(job))):
        flop = 2.0 * m * n * k
        yield device.record(
            "jax.gemm",
            {"m": m, "n": n, "k": k, "layout": layout, "dtype": precision},
            alone,
            source=f"{peak.source}; {STAND_INS}",
            samples=tuple(flop / (share * peak.value) for share in shares_of_peak()),
            work=Work(flop=flop),
        )
    for ranks in group_sizes(job):
        busbw, cause = device.all_reduce_busbw(ranks)
        source = f"{cause}; all_gather taken at the busbw of all_reduce; {STAND_INS}"
        for op in COLLECTIVES:
            for size in SIZES:
                seconds = LATENCY_S + size * busbw_factor(op, ranks) / busbw
                yield device.record(
                    f"jax.collective.{op}",
                    {"bytes": size, "dtype": "float32"},
                    replace(job.world, ranks=ranks),
                    source=source,
                    samples=(seconds / 1.5, seconds, seconds * 1.5),
                    work=Work(message_bytes=size),
                )
