"""mi300bench gemm-sweep: matrix products."""

from pathlib import Path
from typing import Any

import click

from mi300bench.api.products import (
    ProductRequest,
    measure_products,
    read_shapes,
    study_products,
    workload_scores,
)
from mi300bench.cli import show
from mi300bench.cli.options import dtypes, measuring_options, settings_of, words
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.measure import require_all_ok
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Measurement
from mi300bench.units import parse_duration, parse_integers


def _axis(text: str) -> tuple[int, ...]:
    return tuple(parse_integers(text)) if text else ()


@click.command("gemm-sweep")
@click.option(
    "--m",
    default="",
    help="Rows of C: a list such as 512,2048 or a range such as 256:4096:x2. "
    "Default: 256:2048:x2, on a GPU 1024:8192:x2.",
)
@click.option("--n", default="", help="Columns of C; as --m.")
@click.option("--k", default="", help="Length of the reduction; as --m.")
@click.option(
    "--shapes",
    type=click.Path(path_type=Path),
    help="File with one 'M N K' on each line, or with a JSON list of [M, N, K].",
)
@click.option(
    "--model", default="", help="Measure the matrix products of a trainer's model, such as zaya1."
)
@click.option("--preset", default="", help="Preset of --model. Default: the trainer's for a CPU.")
@click.option("--micro-batch", type=int, help="Sequences per rank, for --model.")
@click.option(
    "--layout",
    default="nn,nt,tn",
    show_default=True,
    help="Memory layouts of A and B: n is as given, t is transposed. Ignored with --model.",
)
@click.option(
    "--dtype",
    default="bf16,fp32",
    show_default=True,
    help="Data types, separated by commas: bf16, fp16, fp32, fp8.",
)
@click.option(
    "--cache",
    type=click.Choice(["cold", "hot"]),
    default="cold",
    show_default=True,
    help="Whether the operands are in the last-level cache (hot) or not (cold).",
)
@click.option(
    "--inputs",
    type=click.Choice(["normal", "zeros", "integers"]),
    default="normal",
    show_default=True,
    help="Distribution of the inputs. It changes the power, and so the clock, of a GPU.",
)
@measuring_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    m: str,
    n: str,
    k: str,
    shapes: Path | None,
    model: str,
    preset: str,
    micro_batch: int | None,
    layout: str,
    dtype: str,
    cache: str,
    inputs: str,
    device: str,
    as_json: bool,
    **shared: Any,
) -> None:
    """Measure matrix products C[M,N] = A[M,K] B[K,N]: a grid, a list of shapes, or a model's.

    With --budget a large grid is searched instead of measured whole. The result is the best shape,
    the device's rules of thumb, and a fit that predicts all other shapes. With --model it is also
    the rate of the model's products together.
    """
    request = ProductRequest(
        m=_axis(m),
        n=_axis(n),
        k=_axis(k),
        shapes=read_shapes(shapes) if shapes is not None else (),
        model=model,
        preset=preset,
        micro_batch=micro_batch,
        layouts=words(layout),
        dtypes=dtypes(dtype),
        cache=cache,
        inputs=inputs,
        device=device,
    )
    if shared["budget"] and request.is_searchable:
        _refuse_options_of_passes(ctx)
        budget_s = parse_duration(shared["budget"])
        with settings_of(**(shared | {"budget": ""})) as settings:
            _study(request, settings, budget_s, as_json=as_json)
        return
    with settings_of(**shared) as settings:
        measured = measure_products(request, settings)
    if model and not as_json:
        show.workload(workload_scores(measured.records, request.gemms))
    show.measured(measured, as_json=as_json, show=show.gemm_table)


def _refuse_options_of_passes(ctx: click.Context) -> None:
    """Raise `PlanError` for an option that a search, which has no passes, cannot follow."""
    for name in ("passes", "resume"):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise PlanError(
                f"--{name} does not apply to a search within a --budget",
                hint=f"omit --{name}, or omit --budget to measure the whole grid",
            )


def _study(request: ProductRequest, settings: Settings, budget_s: float, *, as_json: bool) -> None:
    """Print the study of each data type as it ends, or the records of all as one JSON list."""
    records: list[Measurement] = []
    try:
        for study in study_products(request, settings, budget_s=budget_s):
            records += study.measured.records
            if not as_json:
                show.gemm_study(study)
            show.where(study.measured)
            require_all_ok(study.measured)
    except ProbeError:
        if as_json:
            show.records_as_json(records)
        raise
    if as_json:
        show.records_as_json(records)
