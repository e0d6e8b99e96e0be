"""A training step, simulated from measured parts; data-parallel where there are ranks.

While backward runs, gradients become ready, and a full bucket is all-reduced. The backend has one
or more lanes. On its lane a bucket first waits for the latency. Then the buckets in flight share
the bandwidth; two in flight have the measured concurrency times the bandwidth of one. Computation
and communication slow each other down by the measured factors while both run. The step ends when
backward and the last bucket are done and the update has run. Exposed time is the step minus its
computation. Micro-batches before the last one compute and do not communicate.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mi300bench import stats
from mi300bench.errors import RecordError
from mi300bench.fit.link import BEYOND_RANGE, LinkModel
from mi300bench.fit.overlap import OverlapModel
from mi300bench.fit.packing import Caps, pack
from mi300bench.schema.model import Interval, Prediction
from mi300bench.schema.record import Measurement

# ProcessGroupGloo runs collectives on two threads (Options.threads); NCCL and RCCL use one.
LANES = {"gloo": 2}
INSTANT_S = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One step without communication: seconds of each phase, and when each gradient is ready.

    `ready_s` counts from the beginning of backward.
    """

    names: tuple[str, ...]
    gradient_bytes: tuple[int, ...]
    ready_s: tuple[float, ...]
    forward_s: float
    backward_s: float
    update_s: float
    spread: float  # relative half-width of the step's interval
    evidence: tuple[str, ...]

    @property
    def compute_s(self) -> float:
        """Return the seconds of a step without communication."""
        return self.forward_s + self.backward_s + self.update_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One bucket's all-reduce, in seconds from the beginning of backward.

    `ready_s` is when the bucket would be full if communication did not slow backward down.
    """

    bytes: int
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """The simulated step of one packing."""

    step_s: float
    exposed_s: float
    transfers: tuple[Transfer, ...]


def fit_timeline(passes: Sequence[Measurement]) -> Timeline:
    """Return the timeline from the passes of one backward point: medians over all their steps."""
    if not passes:
        raise RecordError(
            "the store has no gradient timeline", hint="measure it: mi300bench autotune TRAINER"
        )
    first = passes[0]
    names = tuple(str(name) for name in first.series["parameter"])
    if any(tuple(record.series["parameter"]) != names for record in passes):
        raise RecordError(
            "the passes of the gradient timeline disagree on the order of gradients",
            hint="the model or torch changed between the passes; "
            f"repeat: mi300bench autotune {first.probe.partition('.')[0]}",
        )
    ready = np.concatenate(
        [
            np.array(record.series["ready_s"], dtype=float).reshape(-1, len(names))
            for record in passes
        ]
    )
    phases = {
        name: stats.typical([float(v) for record in passes for v in record.series[name]])
        for name in ("forward_s", "backward_s", "update_s")
    }
    interval = stats.interval_of(passes)
    return Timeline(
        names=names,
        gradient_bytes=tuple(int(v) for v in first.series["parameter_bytes"]),
        ready_s=tuple(float(v) for v in np.median(ready, axis=0)),
        spread=(interval.high - interval.low) / 2 / interval.mid,
        evidence=tuple(record.id for record in passes),
        **phases,
    )


@dataclass(slots=True)
class _Sending:
    bucket: int
    latency_left: float
    transfer_left: float


def _run(
    ready: Sequence[float],
    parts: Sequence[tuple[float, float]],
    backward_s: float,
    slow: tuple[float, float],
    lanes: int,
    concurrency: float,
) -> tuple[float, list[float], list[float]]:
    """Return when all is done, and the start and the end of each bucket.

    `ready` and `backward_s` are seconds of undisturbed backward; `parts` are the latency and
    transfer seconds of each bucket by itself; `slow` are the slow-down factors of computation and
    of communication while both run.
    """
    now = computed = 0.0
    waiting = 0
    sending: list[_Sending] = []
    starts, ends = [0.0] * len(ready), [0.0] * len(ready)
    while computed < backward_s - INSTANT_S or sending or waiting < len(ready):
        while (
            waiting < len(ready) and len(sending) < lanes and ready[waiting] <= computed + INSTANT_S
        ):
            starts[waiting] = now
            sending.append(_Sending(waiting, *parts[waiting]))
            waiting += 1
        computing = computed < backward_s - INSTANT_S
        compute_rate = 1 / slow[0] if computing and sending else float(computing)
        send_rate = 1 / slow[1] if computing and sending else 1.0
        moving = sum(1 for s in sending if s.latency_left <= INSTANT_S)
        share = min(1.0, concurrency / moving) if moving else 1.0
        steps = [
            s.latency_left if s.latency_left > INSTANT_S else s.transfer_left / (send_rate * share)
            for s in sending
        ]
        if computing:
            goal = ready[waiting] if waiting < len(ready) and len(sending) < lanes else backward_s
            steps.append(
                (min(max(goal, computed + INSTANT_S), backward_s) - computed) / compute_rate
            )
        passed = max(min(steps), 0.0)
        now += passed
        computed += passed * compute_rate
        for s in sending:
            if s.latency_left > INSTANT_S:
                s.latency_left -= passed
            else:
                s.transfer_left -= passed * send_rate * share
        for s in [
            s for s in sending if s.latency_left <= INSTANT_S and s.transfer_left <= INSTANT_S
        ]:
            ends[s.bucket] = now
            sending.remove(s)
    return now, starts, ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Ratios that turn the phases of one step into those of another: over 1 takes longer.

    `gradients` is the ratio of the bytes of gradients; their shares among the parameters stay.
    `spread` is the relative half-width of the ratios' interval.
    """

    forward: float = 1.0
    backward: float = 1.0
    update: float = 1.0
    gradients: float = 1.0
    spread: float = 0.0
    evidence: tuple[str, ...] = ()

    def __mul__(self, other: "Factors") -> "Factors":
        return Factors(
            forward=self.forward * other.forward,
            backward=self.backward * other.backward,
            update=self.update * other.update,
            gradients=self.gradients * other.gradients,
            spread=math.hypot(self.spread, other.spread),
            evidence=(*self.evidence, *other.evidence),
        )


def factors_between(base: Timeline, other: Timeline) -> Factors:
    """Return the ratios of the phases of `other` to those of `base`."""
    return Factors(
        forward=other.forward_s / base.forward_s,
        backward=other.backward_s / base.backward_s,
        update=other.update_s / base.update_s,
        spread=math.hypot(base.spread, other.spread),
        evidence=(*base.evidence, *other.evidence),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """Timeline, link and overlap, which together predict the step of any packing.

    One rank has neither link nor overlap.
    """

    timeline: Timeline
    link: LinkModel | None = None
    overlap: OverlapModel | None = None

    @property
    def evidence(self) -> tuple[str, ...]:
        """Return the ids of all records behind the model."""
        parts = (self.timeline, self.link, self.overlap)
        return tuple(identity for part in parts if part is not None for identity in part.evidence)

    def stretched(self, factors: Factors) -> "StepModel":
        """Return the model with each phase of its timeline multiplied by its factor."""
        timeline = replace(
            self.timeline,
            gradient_bytes=tuple(
                round(size * factors.gradients) for size in self.timeline.gradient_bytes
            ),
            ready_s=tuple(moment * factors.backward for moment in self.timeline.ready_s),
            forward_s=self.timeline.forward_s * factors.forward,
            backward_s=self.timeline.backward_s * factors.backward,
            update_s=self.timeline.update_s * factors.update,
            spread=math.hypot(self.timeline.spread, factors.spread),
            evidence=tuple(dict.fromkeys([*self.timeline.evidence, *factors.evidence])),
        )
        return replace(self, timeline=timeline)

    def simulate(
        self,
        caps: Caps,
        *,
        accumulate: int = 1,
        link_factor: float = 1.0,
        compute_factor: float = 1.0,
    ) -> SimulatedStep:
        """Return the step with buckets of `caps`.

        The factors multiply the seconds of communication and of computation.
        """
        timeline = self.timeline
        before_s = (
            (accumulate - 1) * (timeline.forward_s + timeline.backward_s)
            + timeline.forward_s
            + timeline.update_s
        )
        if self.link is None or self.overlap is None:
            step_s = (before_s + timeline.backward_s) * compute_factor
            return SimulatedStep(step_s=step_s, exposed_s=0.0, transfers=())
        buckets = pack(timeline.gradient_bytes, caps)
        sizes = [sum(timeline.gradient_bytes[index] for index in bucket) for bucket in buckets]
        ready = [
            max(timeline.ready_s[index] for index in bucket) * compute_factor for bucket in buckets
        ]
        # The reducer starts buckets in order, so each waits until all before it are ready.
        ready = [float(moment) for moment in np.maximum.accumulate(ready)]
        latency = self.link.latency_s * link_factor
        parts = []
        for size in sizes:
            whole = self.link.seconds_of(size) * link_factor
            parts.append((min(latency, whole), max(whole - latency, 0.0)))
        backward_s = max(timeline.backward_s * compute_factor, *ready)
        slow = (self.overlap.compute, self.overlap.collective)
        lanes = LANES.get(self.link.backend, 1)
        done_s, starts, ends = _run(ready, parts, backward_s, slow, lanes, self.link.concurrency)
        return SimulatedStep(
            step_s=before_s * compute_factor + done_s,
            exposed_s=done_s - timeline.backward_s * compute_factor,
            transfers=tuple(
                Transfer(bytes=size, ready_s=r, start_s=start, end_s=end)
                for size, r, start, end in zip(sizes, ready, starts, ends, strict=True)
            ),
        )

    def predict(self, caps: Caps, *, accumulate: int = 1) -> Prediction:
        """Return the seconds of a step, bounded by the link's error and the timeline's spread."""
        error, spread = self.link.typical_error if self.link else 0.0, self.timeline.spread
        middle = self.simulate(caps, accumulate=accumulate)
        of_transfers = (
            self.link.predict(transfer.bytes).doubts if self.link else ()
            for transfer in middle.transfers
        )
        doubts = tuple(dict.fromkeys(itertools.chain.from_iterable(of_transfers)))
        if doubts:
            error *= BEYOND_RANGE

        def at(link_factor: float, compute_factor: float) -> float:
            step = self.simulate(
                caps, accumulate=accumulate, link_factor=link_factor, compute_factor=compute_factor
            )
            return step.step_s

        low, high = at(1 / (1 + error), 1 / (1 + spread)), at(1 + error, 1 + spread)
        mid = middle.step_s
        return Prediction(
            value=Interval(low=min(low, mid), mid=mid, high=max(high, mid)),
            evidence=self.evidence,
            doubts=doubts,
        )
