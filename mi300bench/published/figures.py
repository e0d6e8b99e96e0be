"""The published figures of a device, and records that are made from them.

Such a record has the origin `modelled`, and its source names the figures. Search, config and report
use it like any other record, and always show its origin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mi300bench.errors import PlanError
from mi300bench.hw.facts import DeviceFacts, Fact, device_table
from mi300bench.hw.reference import busbw_among
from mi300bench.measurement import plans
from mi300bench.published.assumptions import LEAST_SHARE, MOST_SHARE
from mi300bench.schema.doubt import Modelled
from mi300bench.schema.record import Measurement, Origin, Outcome, Scalar, World, short_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDevice:
    """A device of the table of published facts."""

    facts: DeviceFacts

    @property
    def kind(self) -> str:
        """Return ``rocm`` or ``cuda``."""
        return "rocm" if self.facts.arch.startswith("gfx") else "cuda"

    def fact(self, name: str) -> Fact:
        """Return a published figure; raise `PlanError` if there is none."""
        if name not in self.facts.facts:
            raise PlanError(
                f"no {name} is published for {self.facts.name}",
                hint="choose another device, or measure the node: mi300bench autotune",
            )
        return self.facts.facts[name]

    def all_reduce_busbw(self, ranks: int) -> tuple[float, str]:
        """Return the published busbw of an all_reduce, in bytes per second, and its source."""
        published = busbw_among(self.facts.key, ranks)
        if published is None:
            raise PlanError(
                f"no busbw is published for an all_reduce among 2 or {ranks} {self.facts.name}",
                hint="choose another --ranks, or measure the node: mi300bench autotune",
            )
        return published

    def record(
        self, probe: str, params: Mapping[str, Scalar], world: World, *, source: str, **parts: Any
    ) -> Measurement:
        """Return the record of a point, made from the figures of `source`.

        `parts` are its samples, work and series.
        """
        point = plans.point(probe, params, world)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Measurement(
            probe=probe,
            method=point.method,
            params=params,
            outcome=Outcome.OK,
            id=short_hash(["published", self.facts.key, point.key, now]),
            point=point.key,
            run=f"published-{self.facts.key}",
            world=point.world,
            conditions={
                "framework": point.world.framework,
                "framework_version": "",
                "device_arch": self.facts.arch,
                "backend": "nccl",
            },
            doubts=(Modelled(source=source),),
            node=f"{self.facts.key}-published",
            device=self.facts.name,
            started_at=now,
            origin=Origin.MODELLED,
            source=f"published figures of {self.facts.name}",
            **parts,
        )


def published_device(name: str) -> PublishedDevice:
    """Return the device `name` of the table of facts; raise `PlanError` if it is unknown."""
    known = {entry.key: entry for entry in device_table()}
    if name not in known:
        raise PlanError(
            f"there are no published figures for the device {name!r}",
            hint=f"choose one of {', '.join(known)}",
        )
    return PublishedDevice(facts=known[name])


def shares_of_peak() -> tuple[float, float, float]:
    """Return the highest, middle and lowest share of the peak that we assume for products."""
    return MOST_SHARE, (LEAST_SHARE * MOST_SHARE) ** 0.5, LEAST_SHARE
