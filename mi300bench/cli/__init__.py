"""The command line: one file per noun, loaded when it is called. ``--help`` imports click and nothing else."""

from mi300bench.cli.main import main

__all__ = ["main"]
