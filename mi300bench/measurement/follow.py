"""A measuring command under an outside launcher: rank 0 leads, the other ranks follow."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import JoinedWorker, is_joined, require_joined
from mi300bench.schema.plan import Plan


@contextmanager
def lead_or_follow(plan: Plan, settings: Settings) -> Iterator[tuple[Plan, Settings] | None]:
    """Give plan and settings to the process that leads; the others measure here and get None.

    A launcher's processes cannot be started afresh for each pass, so there is one pass.
    """
    if not is_joined():
        yield plan, settings
        return
    import os

    require_joined(tuple({point.world.ranks for point in plan.points}))
    if os.environ["RANK"] == "0":
        yield replace(plan, passes=1), replace(settings, passes=1)
        return
    first = plan.points[0].world
    JoinedWorker(device=first.device, threads=first.threads, limit_s=settings.limit_s).follow()
    yield None
