"""The strategies by name. To add one, make a package here and add it to this table."""

from collections.abc import Mapping

from mi300bench.errors import PlanError
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.strategies.base import Strategy
from mi300bench.strategies.ddp.strategy import DataParallel
from mi300bench.strategies.job import Job
from mi300bench.strategies.mesh.strategy import DeviceMesh

STRATEGIES: Mapping[str, Strategy] = {each.name: each for each in (DataParallel(), DeviceMesh())}


def strategy_for(spec: TrainerSpec) -> Strategy:
    """Return the strategy of a trainer."""
    if spec.strategy not in STRATEGIES:
        raise PlanError(
            f"{spec.name} declares the strategy {spec.strategy!r}, which does not exist",
            hint=f"use one of {', '.join(STRATEGIES)} in its spec.py",
        )
    return STRATEGIES[spec.strategy]


def strategy_of(job: Job) -> Strategy:
    """Return the strategy of a job's trainer."""
    return strategy_for(job.spec)
