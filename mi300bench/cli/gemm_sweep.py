"""mi300bench gemm-sweep: matrix products."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mi300bench.cli import show
from mi300bench.cli.options import device_of, dtypes, measuring_options, settings_of, words
from mi300bench.errors import PlanError
from mi300bench.measurement import gemm_study, plans
from mi300bench.measurement.local_topology import local_topology
from mi300bench.measurement.measure import measure, require_all_ok
from mi300bench.schema.model import Gemm
from mi300bench.schema.plan import Point
from mi300bench.schema.record import World
from mi300bench.trainers.registry import spec_of
from mi300bench.units import parse_duration, parse_integers


def read_shapes(path: Path) -> list[tuple[int, int, int]]:
    """Return the shapes of a file: a JSON list of [M, N, K] (or of objects with m, n, k), or a line ``M N K`` each."""
    try:
        text = path.read_text()
    except OSError as cause:
        raise PlanError(
            f"{path} cannot be read: {cause.strerror}", hint="--shapes FILE, a line 'M N K' each"
        ) from cause
    try:
        rows = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [line.split() for line in text.splitlines() if line.strip()]
        )
        shapes = [
            tuple(int(v) for v in (row[n] for n in "mnk"))
            if isinstance(row, dict)
            else tuple(map(int, row))
            for row in rows
        ]
        if any(len(shape) != 3 or min(shape) < 1 for shape in shapes):
            raise ValueError("a shape is not three positive numbers")
    except (ValueError, KeyError, TypeError) as cause:
        raise PlanError(
            f"{path} holds no shapes: {cause}", hint="a line 'M N K' each, or a JSON list"
        ) from cause
    return [(m, n, k) for m, n, k in shapes]


@click.command("gemm-sweep")
@click.option("--m", default="", help="Rows of the result: a list or a range, such as 256:4096:x2.")
@click.option("--n", default="", help="Columns of the result.")
@click.option("--k", default="", help="The reduction.")
@click.option(
    "--shapes",
    type=click.Path(path_type=Path),
    help="File with a line 'M N K' each, or a JSON list.",
)
@click.option(
    "--model", default="", help="Measure the products of a trainer's model, such as zaya1."
)
@click.option("--preset", default="", help="Which preset of --model; default the trainer's.")
@click.option("--micro-batch", type=int, help="Sequences per rank, for --model.")
@click.option(
    "--layout",
    default="nn,nt,tn",
    show_default=True,
    help="How A and B lie in memory; a model has its own.",
)
@click.option("--dtype", default="bf16,fp32", show_default=True, help="Of bf16, fp16, fp32, fp8.")
@click.option(
    "--cache",
    type=click.Choice(["cold", "hot"]),
    default="cold",
    show_default=True,
    help="State of the last-level cache.",
)
@click.option("--inputs", type=click.Choice(["normal", "zeros", "integers"]), default="normal", show_default=True,
              help="Distribution of the inputs; it moves the power and so the clock of an accelerator.")  # fmt: skip
@measuring_options
def command(
    *, m: str, n: str, k: str, shapes: Path | None, model: str, preset: str, micro_batch: int | None, layout: str,
    dtype: str, cache: str, inputs: str, device: str, as_json: bool, **shared: Any,
) -> None:  # fmt: skip
    """Measure matrix products C[M,N] = A[M,K] B[K,N]. Without options: a grid of powers of two.

    With --budget a grid is searched instead of measured whole, unless it is small: the best shape, the device's own rules of thumb,
    and a fit of all other shapes from ones drawn at random; with --model also what that model's products reach together.
    """
    kind = device_of(device)
    alone = local_topology(kind, 1)
    if sum([bool(m or n or k), shapes is not None, bool(model)]) > 1:
        raise PlanError("a grid, --shapes and --model exclude each other", hint="give one of them")
    default = "256:2048:x2" if kind == "cpu" else "1024:8192:x2"
    axes = tuple(tuple(parse_integers(axis or default)) for axis in (m, n, k))
    if shared["budget"] and shapes is None and (model or gemm_study.is_searchable(axes)):
        gemms = _gemms(model, preset, micro_batch) if model else ()
        _study(
            axes,
            alone,
            words(layout),
            dtypes(dtype),
            gemms,
            cache=cache,
            inputs=inputs,
            as_json=as_json,
            **shared,
        )
        return
    if model:
        points = _model_points(model, preset, micro_batch, dtypes(dtype), cache, inputs, alone)
    else:
        points = plans.gemm_points(
            read_shapes(shapes) if shapes else list(itertools.product(axes[0], axes[1], axes[2])),
            alone,
            layouts=words(layout),
            dtypes=dtypes(dtype),
            cache=cache,
            inputs=inputs,
        )
    plan = plans.plan(
        "What does a product cost, by shape, layout and type?", points, passes=shared["passes"]
    )
    with settings_of(**shared) as settings:
        result = measure(plan, settings)
        if model and not as_json:
            show.workload(
                result.records, _gemms(model, preset, micro_batch)
            )
        show.measured(result, as_json=as_json, show=show.gemm_table)


def _study(
    axes: tuple[tuple[int, ...], ...], alone: World, layouts: tuple[str, ...], kinds: tuple[str, ...],
    gemms: Sequence[Gemm], *, cache: str, inputs: str, as_json: bool, **shared: Any,
) -> None:  # fmt: skip
    """Search within the budget instead of measuring the whole grid; each type gets its share of the time."""
    given = click.get_current_context().get_parameter_source
    for name in ("passes", "resume"):
        if given(name) is click.core.ParameterSource.COMMANDLINE:
            raise PlanError(
                f"--{name} has no meaning in a search",
                hint=f"leave --{name} out, or --budget, which asks for the search",
            )
    seconds = parse_duration(shared["budget"]) / len(kinds)
    with settings_of(**(shared | {"budget": ""})) as settings:
        for kind in kinds:
            study = gemm_study.study(
                axes,
                alone,
                settings,
                dtype=kind,
                layouts=layouts,
                cache=cache,
                inputs=inputs,
                budget_s=seconds,
                workload=gemms,
            )
            if as_json:
                show.records_as_json(study.measured.records)
            else:
                show.gemm_study(study)
            click.echo(f"{len(study.measured.records)} records in {study.measured.path}", err=True)
            require_all_ok(study.measured)


def _model_points(
    model: str,
    preset: str,
    micro_batch: int | None,
    kinds: tuple[str, ...],
    cache: str,
    inputs: str,
    alone: World,
) -> list[Point]:
    gemms = _gemms(model, preset, micro_batch)
    return [
        p
        for kind in kinds
        for p in plans.model_gemm_points(gemms, alone, dtype=kind, cache=cache, inputs=inputs)
    ]


def _gemms(model: str, preset: str, micro_batch: int | None) -> tuple[Gemm, ...]:
    """Return the products of a trainer's model; the preset left out is the trainer's own."""
    spec = spec_of(model)
    config = spec.preset(preset or spec.default_presets["cpu"])
    if micro_batch is not None:
        if "micro_batch" not in spec.options:
            raise PlanError(f"{model} has no --micro-batch", hint="leave it out")
        config = spec.override(config, {spec.options["micro_batch"]: micro_batch})
    return spec.describe(config).gemms
