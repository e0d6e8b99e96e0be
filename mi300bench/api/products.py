"""Matrix products C[M,N] = A[M,K] B[K,N], measured: a grid, a list of shapes, or those of a model.

Within a budget a large grid is searched instead: see `study_products`.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mi300bench.api.measuring import AUTO, device_kind
from mi300bench.errors import PlanError
from mi300bench.fit.gemm import Score, workload_score
from mi300bench.measurement import gemm_study, plans
from mi300bench.measurement.gemm_study import GemmStudy
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import Measured, measure
from mi300bench.measurement.settings import Settings
from mi300bench.schema.model import Gemm
from mi300bench.schema.plan import Point
from mi300bench.schema.record import Measurement, Outcome
from mi300bench.store.select import by_point
from mi300bench.trainers.registry import spec_of

Shape = tuple[int, int, int]
# The sizes of each axis of a grid that is not given.
DEFAULT_AXES = {
    "cpu": (256, 512, 1024, 2048),
    "cuda": (1024, 2048, 4096, 8192),
    "rocm": (1024, 2048, 4096, 8192),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRequest:
    """Which products to measure, and how. A grid, `shapes` and `model` exclude each other.

    m, n, k      the axes of a grid; an empty axis has the default sizes of the device
    shapes       a list of (M, N, K)
    model        a trainer; `preset` and `micro_batch` choose the size of its model
    layouts      how A and B lie in memory; ignored for a model
    cache        ``cold`` or ``hot``: whether the operands are in the last-level cache
    inputs       the distribution of the inputs, which changes the power and so the clock of a GPU
    """

    m: Sequence[int] = ()
    n: Sequence[int] = ()
    k: Sequence[int] = ()
    shapes: Sequence[Shape] = ()
    model: str = ""
    preset: str = ""
    micro_batch: int | None = None
    layouts: Sequence[str] = ("nn", "nt", "tn")
    dtypes: Sequence[str] = ("bfloat16", "float32")
    cache: str = "cold"
    inputs: str = "normal"
    device: str = AUTO

    def __post_init__(self) -> None:
        has_grid = bool(self.m or self.n or self.k)
        if sum([has_grid, bool(self.shapes), bool(self.model)]) > 1:
            raise PlanError(
                "a grid (--m, --n, --k), --shapes and --model exclude each other",
                hint="give only one of them",
            )

    @property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """Return the sizes of M, N and K of the grid."""
        default = DEFAULT_AXES[device_kind(self.device)]
        return tuple(tuple(axis) or default for axis in (self.m, self.n, self.k))

    @property
    def gemms(self) -> tuple[Gemm, ...]:
        """Return the products of the model; none if no model was given."""
        if not self.model:
            return ()
        return products_of_model(self.model, preset=self.preset, micro_batch=self.micro_batch)

    @property
    def is_searchable(self) -> bool:
        """Return whether a budget can search the grid; a list of shapes is measured as it is."""
        return not self.shapes and (bool(self.model) or gemm_study.is_searchable(self.axes))


def read_shapes(path: Path) -> list[Shape]:
    """Return the shapes of a file: a JSON list, or lines of ``M N K``.

    The elements of the list are [M, N, K], or objects with the keys m, n and k.
    """
    try:
        text = path.read_text()
    except OSError as cause:
        raise PlanError(
            f"{path} cannot be read: {cause.strerror}",
            hint="give --shapes a file with one 'M N K' on each line",
        ) from cause
    try:
        shapes = [_shape(row) for row in _rows(text)]
        if not shapes:
            raise ValueError("it is empty")
        return shapes
    except (ValueError, KeyError, TypeError) as cause:
        raise PlanError(
            f"{path} is not a list of shapes: {cause}",
            hint="write one 'M N K' on each line, or a JSON list of [M, N, K]",
        ) from cause


def _rows(text: str) -> list[object]:
    if text.lstrip().startswith("["):
        rows: list[object] = json.loads(text)
        return rows
    return [line.split() for line in text.splitlines() if line.strip()]


def _shape(row: object) -> Shape:
    sizes = [row[name] for name in "mnk"] if isinstance(row, dict) else row
    if not isinstance(sizes, list) or len(sizes) != 3:
        raise ValueError(f"{row!r} is not three numbers")
    m, n, k = (int(size) for size in sizes)
    if min(m, n, k) < 1:
        raise ValueError(f"{row!r} has a size below 1")
    return m, n, k


def products_of_model(
    trainer: str, *, preset: str = "", micro_batch: int | None = None
) -> tuple[Gemm, ...]:
    """Return the products of a trainer's model; the default preset is the trainer's for a CPU."""
    spec = spec_of(trainer)
    config = spec.preset(preset or spec.default_presets["cpu"])
    if micro_batch is not None:
        if "micro_batch" not in spec.options:
            raise PlanError(f"{trainer} has no --micro-batch", hint="omit it")
        config = spec.override(config, {spec.options["micro_batch"]: micro_batch})
    return spec.describe(config).gemms


def measure_products(request: ProductRequest, settings: Settings) -> Measured:
    """Measure every product of the request, in each data type."""
    question = "How fast are matrix products, by shape, layout and data type?"
    return measure(plans.plan(question, _points(request), passes=settings.passes), settings)


def _points(request: ProductRequest) -> list[Point]:
    world = local_topology(device_kind(request.device), 1)
    if not request.model:
        m, n, k = request.axes
        return plans.gemm_points(
            request.shapes or list(itertools.product(m, n, k)),
            world,
            layouts=request.layouts,
            dtypes=request.dtypes,
            cache=request.cache,
            inputs=request.inputs,
        )
    gemms = request.gemms
    return [
        point
        for dtype in request.dtypes
        for point in plans.model_gemm_points(
            gemms, world, dtype=dtype, cache=request.cache, inputs=request.inputs
        )
    ]


def study_products(
    request: ProductRequest, settings: Settings, *, budget_s: float
) -> Iterator[GemmStudy]:
    """Yield a study of the products for each data type, as it is measured.

    Each gets an equal share of `budget_s`: the best shape of the grid, the device's rules of thumb,
    and a fit for all other shapes. With a model, also the rate of its products together.
    """
    world = local_topology(device_kind(request.device), 1)
    unlimited = replace(settings, deadline=None)
    for dtype in request.dtypes:
        yield gemm_study.study(
            request.axes,
            world,
            unlimited,
            dtype=dtype,
            layouts=request.layouts,
            cache=request.cache,
            inputs=request.inputs,
            budget_s=budget_s / len(request.dtypes),
            workload=request.gemms,
        )


def workload_scores(records: Sequence[Measurement], gemms: Sequence[Gemm]) -> Mapping[str, Score]:
    """Return by data type the rate of a model's products together, and that of the best one."""
    scores = {}
    for dtype in dict.fromkeys(str(record.params["dtype"]) for record in records):
        ok = [r for r in records if r.outcome is Outcome.OK and r.params["dtype"] == dtype]
        score = workload_score(list(by_point(ok).values()), gemms)
        if score is not None:
            scores[dtype] = score
    return scores
