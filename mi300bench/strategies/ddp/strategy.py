"""Data parallelism under DistributedDataParallel: a process for each rank.

Gradients are reduced in buckets while backward runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from mi300bench.fit.step import Factors
from mi300bench.measurement import plans
from mi300bench.measurement.local_topology import default_ranks, local_topology
from mi300bench.measurement.measure import measure
from mi300bench.measurement.settings import Settings
from mi300bench.published.figures import PublishedDevice
from mi300bench.schema.candidate import Candidate, Knob, Option, default_of
from mi300bench.schema.plan import Point, Stop
from mi300bench.schema.record import Measurement, World
from mi300bench.schema.trainer import KnobKind, TrainerSpec
from mi300bench.strategies.base import Request, Space, Stage, Strategy
from mi300bench.strategies.ddp import published, stages
from mi300bench.strategies.ddp.buckets import (
    BUCKET_KNOB,
    BUCKETS,
    DEFAULT,
    bucket_knob,
    indivisible,
)
from mi300bench.strategies.ddp.evidence import StepEvidence, gather
from mi300bench.strategies.ddp.layouts import RANKS, THREADS, batch_knob, step_params
from mi300bench.strategies.ddp.memory import RankMemory, process_memory
from mi300bench.strategies.ddp.predictor import DataParallelPredictor, Identity
from mi300bench.strategies.ddp.shapes import factors_of
from mi300bench.strategies.job import Job

MOST_SHAPES = 12


@final
class DataParallel(Strategy):
    """A process for each rank. A run on this machine shows the whole step."""

    name = "ddp"

    def place(
        self, spec: TrainerSpec, config: Any, keys: Mapping[str, Any], request: Request
    ) -> tuple[World, Any]:
        """Return the world of the requested ranks; by default one for each GPU or core."""
        ranks = request.ranks if request.ranks is not None else default_ranks(request.device)
        world = local_topology(
            request.device, ranks, launcher=request.launcher, is_absent=request.is_absent
        )
        return world, spec.override(config, keys)

    def stages(self, job: Job) -> list[Stage]:
        """Return the points to measure, the most important stage first."""
        return stages.stages(job)

    def published_records(self, job: Job, device: PublishedDevice) -> Iterator[Measurement]:
        """Yield timelines, the all_reduce curve and the overlap, from published figures."""
        return published.records_of(job, device)

    def space(self, job: Job, records: Sequence[Measurement], settings: Settings) -> Space:
        """Return the knobs that the records can weigh, with predictor and memory."""
        seen = gather(records, job, stages.run_options(job))
        knobs: dict[str, Knob] = {
            name: Knob(name=name, options=(Option(), *options))
            for name, options in seen.options.items()
        }
        if len(seen.layouts) > 1:
            for spec in job.weighed(KnobKind.LAYOUT):
                knobs[spec.name] = batch_knob(seen.layouts)
        shapes, effects, notes = self._shapes(job, seen)
        predictor = replace(seen.predictor, effects={**seen.predictor.effects, **effects})
        knobs |= shapes
        if job.world.ranks > 1:
            version = str(seen.used[0].conditions.get("framework_version", "0"))
            for spec in job.weighed(KnobKind.BUCKETS):
                knobs[spec.name] = bucket_knob(predictor.default_model, torch_version=version)
        ordered = tuple(knobs[name] for name in job.spec.knob_names if name in knobs)
        default = default_of(ordered)
        memory = self._memory(job, seen, default, settings)
        return Space(
            knobs=ordered,
            default=default,
            predictor=predictor,
            memory=memory,
            first=seen.used[0],
            notes=(*seen.notes, *notes),
            readings=seen.readings,
            knob_doubts=self._knob_doubts(predictor),
            knob_evidence={name: seen.gemm.evidence for name in shapes} if seen.gemm else {},
            step_model=predictor.default_model,
        )

    def _shapes(
        self, job: Job, seen: StepEvidence
    ) -> tuple[dict[str, Knob], dict[Identity, Factors], list[str]]:
        """Return the knobs of the shapes that are predicted fastest, their effects, and notes."""
        knobs: dict[str, Knob] = {}
        effects: dict[Identity, Factors] = {}
        weighed = job.weighed(KnobKind.PRODUCTS)
        if not weighed:
            return knobs, effects, ["model shapes are not tuned"]
        if seen.gemm is None:
            note = (
                "not weighed: shapes, for too few products were measured. Try: mi300bench autotune"
            )
            return knobs, effects, [note]
        default, timeline = job.described, seen.predictor.default_model.timeline
        for spec in weighed:
            rows: list[tuple[float, Option, Factors]] = []
            for keys in spec.options(job.request(is_short_of_memory=False)):
                variant = job.spec.describe(job.with_keys(keys))
                width = variant.width / default.width
                factors = factors_of(seen.gemm, default, variant, timeline, width_ratio=width)
                option = Option(keys=keys, work=variant.flop_per_token / default.flop_per_token)
                seconds = (
                    timeline.forward_s * factors.forward
                    + timeline.backward_s * factors.backward
                    + timeline.update_s * factors.update
                )
                rows.append((seconds / option.work, option, factors))
            rows.sort(key=lambda row: row[0])
            best = rows[:MOST_SHAPES]
            knobs[spec.name] = Knob(
                name=spec.name, options=(Option(), *(option for _, option, _ in best))
            )
            effects |= {option.identity: factors for _, option, factors in best}
        return knobs, effects, []

    def _memory(
        self, job: Job, seen: StepEvidence, default: Candidate, settings: Settings
    ) -> RankMemory:
        known = process_memory(job, seen.memory, default, seen.readings)

        def measure_one(candidate: Candidate) -> Sequence[Measurement]:
            settings.say(f"measuring the memory of {candidate.label}: {memory.sentence(candidate)}")
            point = stages.memory_point(job, candidate)
            plan = plans.plan("Does the pick fit into memory?", [point], passes=1)
            return measure(plan, replace(settings, passes=1)).records

        memory = RankMemory(job, seen.readings, known, measure_one)
        return memory

    def _knob_doubts(self, predictor: DataParallelPredictor) -> dict[str, tuple[str, ...]]:
        doubt = indivisible(predictor.default_model)
        return {BUCKET_KNOB: (doubt,)} if doubt else {}

    def is_possible(self, job: Job, candidate: Candidate) -> bool:
        """Return whether the candidate is possible: a world of one rank has no buckets."""
        is_alone = candidate.world is not None and candidate.world.ranks == 1
        return not (is_alone and BUCKET_KNOB in candidate.changed)

    def step_point(self, job: Job, candidate: Candidate, stop: Stop) -> Point:
        """Return the point that trains whole steps of a candidate."""
        params = step_params(job, {BUCKETS: DEFAULT} | candidate.keys)
        return plans.point(f"{job.trainer}.step", params, candidate.world or job.world, stop=stop)

    def launch_keys(self, job: Job, pick: Candidate) -> Mapping[str, Any]:
        """Return ranks and threads of the pick."""
        world = pick.world or job.world
        return {RANKS: world.ranks, THREADS: world.threads}
