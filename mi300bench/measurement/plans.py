"""Points and plans: which points answer the question of a command."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mi300bench.errors import PlanError
from mi300bench.physics import COLLECTIVES
from mi300bench.probes.catalog import CATALOG, entry
from mi300bench.schema.model import Gemm
from mi300bench.schema.plan import Plan, Point, Stop
from mi300bench.schema.record import Scalar, World

MOST_POINTS = 4096
PATTERNS = tuple(name.removeprefix("memory.") for name in CATALOG if name.startswith("memory."))
ROW_PATTERNS = ("gather", "scatter")


def point(
    probe: str,
    params: Mapping[str, Scalar],
    world: World,
    *,
    stop: Stop | None = None,
    environment: Mapping[str, str] | None = None,
) -> Point:
    """Return a point of a probe of the catalog."""
    listed = entry(probe)
    if world.ranks < listed.ranks:
        raise PlanError(
            f"{probe} needs at least {listed.ranks} ranks (got {world.ranks})",
            hint=f"--ranks {listed.ranks}",
        )
    return Point(
        probe=probe,
        method=listed.method,
        target=listed.target,
        params=dict(params),
        world=replace(world, framework=listed.needs),
        environment=dict(environment or {}),
        stop=stop or Stop(),
    )


def plan(
    question: str,
    points: Iterable[Point],
    *,
    passes: int,
    most: int = MOST_POINTS,
    interleaved: bool = False,
) -> Plan:
    """Return a plan. A point that is given twice counts once; more than `most` are an error."""
    unique = tuple({p.key: p for p in points}.values())
    if not unique:
        raise PlanError("the plan has no points", hint="give at least one size, shape or operation")
    if len(unique) > most:
        raise PlanError(
            f"the plan has {len(unique)} points, more than {most}",
            hint="shorten an axis, or raise max_points in a sweep file",
        )
    return Plan(question=question, points=unique, passes=passes, interleaved=interleaved)


def _require_known(names: Sequence[str], known: Sequence[str], what: str) -> None:
    """Raise `PlanError` for the first of `names` that is not `known`."""
    for name in names:
        if name not in known:
            raise PlanError(f"unknown {what} {name!r}", hint=f"one of {', '.join(known)}")


def memory_points(
    patterns: Sequence[str],
    sizes: Sequence[int],
    world: World,
    *,
    dtype: str = "float32",
    variants: Sequence[str] = ("op", "compiled"),
    row_bytes: Sequence[int] = (256, 4096),
    stop: Stop | None = None,
) -> list[Point]:
    """Return the points of memory bandwidth by pattern, bytes per array, and kernel variant."""
    _require_known(patterns, PATTERNS, "pattern")
    _require_known(variants, ("op", "compiled"), "variant")
    points = []
    for pattern, size, variant in itertools.product(patterns, sizes, variants):
        params: dict[str, Scalar] = {"bytes": size, "dtype": dtype, "variant": variant}
        rows: Sequence[int | None] = (
            [r for r in row_bytes if r <= size] if pattern in ROW_PATTERNS else [None]
        )
        for row in rows:
            extra = {} if row is None else {"row_bytes": row}
            points.append(point(f"memory.{pattern}", params | extra, world, stop=stop))
    return points


def gemm_points(
    shapes: Iterable[tuple[int, int, int]],
    world: World,
    *,
    layouts: Sequence[str] = ("nn",),
    dtypes: Sequence[str] = ("bfloat16",),
    cache: str = "cold",
    inputs: str = "normal",
    stop: Stop | None = None,
) -> list[Point]:
    """Return the points of matrix products (M, N, K), where K is the reduction."""
    _require_known(layouts, ("nn", "nt", "tn"), "layout")
    return [
        point(
            "gemm",
            {
                "m": m,
                "n": n,
                "k": k,
                "layout": layout,
                "dtype": dtype,
                "cache": cache,
                "inputs": inputs,
            },
            world,
            stop=stop,
        )
        for (m, n, k), layout, dtype in itertools.product(shapes, layouts, dtypes)
    ]


def model_products(gemms: Iterable[Gemm]) -> list[tuple[int, int, int, str]]:
    """Return (M, N, K, layout) of a model's forward products and the two backward products of each.

    The forward product of a linear layer is nt, that of its input gradient nn with N and K
    exchanged, and that of its weight gradient tn with the tokens as the reduction.
    """
    products: list[tuple[int, int, int, str]] = []
    for gemm in gemms:
        products += [
            (gemm.m, gemm.n, gemm.k, "nt"),
            (gemm.m, gemm.k, gemm.n, "nn"),
            (gemm.n, gemm.k, gemm.m, "tn"),
        ]
    return list(dict.fromkeys(products))


def model_gemm_points(
    gemms: Iterable[Gemm],
    world: World,
    *,
    dtype: str,
    cache: str = "cold",
    inputs: str = "normal",
    stop: Stop | None = None,
) -> list[Point]:
    """Return the points of all matrix products in a model's training step."""
    points = []
    for m, n, k, layout in model_products(gemms):
        points += gemm_points(
            [(m, n, k)],
            world,
            layouts=[layout],
            dtypes=[dtype],
            cache=cache,
            inputs=inputs,
            stop=stop,
        )
    return points


def collective_points(
    ops: Sequence[str],
    sizes: Sequence[int],
    worlds: Sequence[World],
    *,
    dtype: str = "float32",
    inflight: int = 1,
    stop: Stop | None = None,
) -> list[Point]:
    """Return the points of collectives of total size in bytes; only all_reduce takes `inflight`."""
    _require_known(ops, COLLECTIVES, "collective")
    several: dict[str, Scalar] = {"inflight": inflight} if inflight > 1 else {}
    return [
        point(
            f"collective.{op}",
            {**several, "bytes": size, "dtype": dtype},
            world,
            stop=stop,
        )
        for world, op, size in itertools.product(worlds, ops, sizes)
    ]


def overlap_points(
    sizes: Sequence[int],
    shapes: Sequence[tuple[int, int, int]],
    world: World,
    *,
    dtype: str = "float32",
    inflight: int = 1,
    stop: Stop | None = None,
) -> list[Point]:
    """Return the points of all-reduces beside matrix products, `inflight` of them at once."""
    several: dict[str, Scalar] = {"inflight": inflight} if inflight > 1 else {}
    return [
        point(
            "overlap",
            {**several, "bytes": size, "m": m, "n": n, "k": k, "dtype": dtype},
            world,
            stop=stop,
        )
        for size, (m, n, k) in itertools.product(sizes, shapes)
    ]
