"""Measure an MI300X node, fit a model of it, and tune training for it.

The names here are the public face (docs/reference/python.md); everything else may change. A name is
imported when it is first used, so ``import mi300bench`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mi300bench.api.comparing import compare_sides as compare
    from mi300bench.api.exporting import export as export_config
    from mi300bench.api.fitting import fit_bandwidth, fit_collective, fit_products
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
    from mi300bench.api.reporting import write_report
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
    "Settings": ("measurement.settings", "Settings"),
    "TunedConfig": ("schema.config", "TunedConfig"),
    "Unit": ("units", "Unit"),
    "Work": ("schema.record", "Work"),
    "autotune": ("api.jobs", "autotune"),
    "compare": ("api.comparing", "compare_sides"),
    "export_config": ("api.exporting", "export"),
    "fit_bandwidth": ("api.fitting", "fit_bandwidth"),
    "fit_collective": ("api.fitting", "fit_collective"),
    "fit_products": ("api.fitting", "fit_products"),
    "job_from": ("api.jobs", "job_from"),
    "lint_figures": ("api.linting", "lint"),
    "measure_sweep": ("api.measuring", "measure_sweep"),
    "plan_step": ("api.planning", "plan"),
    "read_config": ("schema.config", "read"),
    "read_store": ("api.measuring", "read_store"),
    "tune_from_figures": ("api.jobs", "tune_from_figures"),
    "tune_from_store": ("api.jobs", "tune_from_store"),
    "write_report": ("api.reporting", "write_report"),
}

__all__ = [
    "JobOptions",
    "Measurement",
    "Mi300benchError",
    "Outcome",
    "Settings",
    "TunedConfig",
    "Unit",
    "Work",
    "autotune",
    "compare",
    "export_config",
    "fit_bandwidth",
    "fit_collective",
    "fit_products",
    "job_from",
    "lint_figures",
    "measure_sweep",
    "plan_step",
    "read_config",
    "read_store",
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
