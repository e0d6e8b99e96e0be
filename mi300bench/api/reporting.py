"""The report of a store as one HTML file."""

from pathlib import Path

from mi300bench.errors import NodeError, RecordError
from mi300bench.measurement.settings import Say, silent
from mi300bench.schema.config import TunedConfig
from mi300bench.schema.model import Gemm
from mi300bench.store.reader import read_records
from mi300bench.trainers.registry import spec_of
from mi300bench_reports.builder import build
from mi300bench_reports.render import render


def write_report(
    store: Path, out: Path, *, tuned: TunedConfig | None = None, node: str = "", warn: Say = silent
) -> None:
    """Write the report of `store`, or of one `node` in it, to `out`, whole or not at all."""
    records = tuple(r for r in read_records(store, warn=warn) if node in ("", r.node))
    if not records:
        raise RecordError(
            f"the store {store} has no records{f' of node {node!r}' if node else ''}",
            hint="measure first: mi300bench hbm",
        )
    text = render(build(records, tuned, _products(tuned) if tuned is not None else ()))
    partial = out.with_name(out.name + ".partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.rename(out)
    except OSError as cause:
        raise NodeError(
            f"{out} cannot be written: {cause.strerror}", hint="give another --out"
        ) from cause


def _products(tuned: TunedConfig) -> tuple[Gemm, ...]:
    """Return the products of the model with its default shapes, which were the measured ones."""
    spec = spec_of(tuned.trainer)
    defaults = {key: choice.default for key, choice in tuned.choices.items()}
    config = spec.override(spec.from_tables(tuned.config), defaults)
    return spec.describe(config).gemms
