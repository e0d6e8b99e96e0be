"""The command line. A command parses its options, calls one function of the library, and prints.

main.py     the table of commands, and the exit codes
options.py  options that several commands have
show.py     records as tables and as JSON

machine/    node, hbm, gemm-sweep, collectives, overlap, sweep, scaling
trainer/    autotune, tune, explain, export, plan, train
records/    query, compare, import, lint, report

Each command has its own file, which is imported when the command is called: ``--help`` loads click
alone.
"""

from mi300bench.cli.main import main

__all__ = ["main"]
