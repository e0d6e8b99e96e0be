"""A measuring command under an outside launcher: rank 0 is the session, the other ranks follow it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mi300bench.measurement.settings import Settings
from mi300bench.runner.external_launcher import JoinedWorker, is_joined, require_joined
from mi300bench.schema.plan import Plan


@contextmanager
def follow_or(plan: Plan, settings: Settings) -> Iterator[tuple[Plan, Settings] | None]:
    """Give plan and settings to the process that is the session; the others do their part here and get None.

    A process of a launcher's group cannot start afresh for each pass, so there is one.
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
