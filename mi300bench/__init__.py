"""Measure an MI300X node, fit a model of it, and tune training for it.

The names here are the public face (docs/reference/python.md); everything else may change. A name is
imported when it is first used, so ``import mi300bench`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mi300bench.api.autotuning import autotune_into
    from mi300bench.api.comparing import compare_sides as compare
    from mi300bench.api.exporting import export as export_config
    from mi300bench.api.fitting import fit_bandwidth, fit_collective, fit_products
    from mi300bench.api.importing import import_logs
    from mi300bench.api.jobs import (
        JobOptions,
        autotune,
        job_from,
        tune_from_figures,
        tune_from_store,
    )
    from mi300bench.api.linting import lint as lint_figures
    from mi300bench.api.measuring import measure_sweep, read_store
    from mi300bench.api.planning import plan as plan_step
    from mi300bench.api.products import ProductRequest, measure_products, study_products
    from mi300bench.api.reporting import write_report
    from mi300bench.api.scaling import measure_scaling, scaling_rows
    from mi300bench.api.training import TrainOptions, prepare_training, start_ranks, train
    from mi300bench.errors import Mi300benchError
    from mi300bench.measurement.settings import Settings
    from mi300bench.schema.config import TunedConfig
    from mi300bench.schema.config import read as read_config
    from mi300bench.schema.record import Measurement, Outcome, Work
    from mi300bench.units import Unit

# Each public name: the module that has it, and its name there.
_PUBLIC = {
    "JobOptions": ("api.jobs", "JobOptions"),
    "Measurement": ("schema.record", "Measurement"),
    "Mi300benchError": ("errors", "Mi300benchError"),
    "Outcome": ("schema.record", "Outcome"),
    "ProductRequest": ("api.products", "ProductRequest"),
    "Settings": ("measurement.settings", "Settings"),
    "TrainOptions": ("api.training", "TrainOptions"),
    "TunedConfig": ("schema.config", "TunedConfig"),
    "Unit": ("units", "Unit"),
    "Work": ("schema.record", "Work"),
    "autotune": ("api.jobs", "autotune"),
    "autotune_into": ("api.autotuning", "autotune_into"),
    "compare": ("api.comparing", "compare_sides"),
    "export_config": ("api.exporting", "export"),
    "fit_bandwidth": ("api.fitting", "fit_bandwidth"),
    "fit_collective": ("api.fitting", "fit_collective"),
    "fit_products": ("api.fitting", "fit_products"),
    "import_logs": ("api.importing", "import_logs"),
    "job_from": ("api.jobs", "job_from"),
    "lint_figures": ("api.linting", "lint"),
    "measure_products": ("api.products", "measure_products"),
    "measure_scaling": ("api.scaling", "measure_scaling"),
    "measure_sweep": ("api.measuring", "measure_sweep"),
    "plan_step": ("api.planning", "plan"),
    "prepare_training": ("api.training", "prepare_training"),
    "read_config": ("schema.config", "read"),
    "read_store": ("api.measuring", "read_store"),
    "scaling_rows": ("api.scaling", "scaling_rows"),
    "start_ranks": ("api.training", "start_ranks"),
    "study_products": ("api.products", "study_products"),
    "train": ("api.training", "train"),
    "tune_from_figures": ("api.jobs", "tune_from_figures"),
    "tune_from_store": ("api.jobs", "tune_from_store"),
    "write_report": ("api.reporting", "write_report"),
}

__all__ = [
    "JobOptions",
    "Measurement",
    "Mi300benchError",
    "Outcome",
    "ProductRequest",
    "Settings",
    "TrainOptions",
    "TunedConfig",
    "Unit",
    "Work",
    "autotune",
    "autotune_into",
    "compare",
    "export_config",
    "fit_bandwidth",
    "fit_collective",
    "fit_products",
    "import_logs",
    "job_from",
    "lint_figures",
    "measure_products",
    "measure_scaling",
    "measure_sweep",
    "plan_step",
    "prepare_training",
    "read_config",
    "read_store",
    "scaling_rows",
    "start_ranks",
    "study_products",
    "train",
    "tune_from_figures",
    "tune_from_store",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Return a public name, imported now."""
    if name not in _PUBLIC:
        raise AttributeError(f"mi300bench has no {name!r}; its names are {', '.join(__all__)}")
    module, attribute = _PUBLIC[name]
    value = getattr(importlib.import_module(f"mi300bench.{module}"), attribute)
    globals()[name] = value
    return value
