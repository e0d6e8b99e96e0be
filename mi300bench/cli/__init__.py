"""The command line. A command parses its options, calls one function of the library, and prints.

main.py     the table of commands, and the exit codes
options.py  options that several commands have
show.py     records as tables and as JSON

Every other module is the command of its name (import_.py: ``import``). It is imported when it is
called, so that ``--help`` loads click alone.
"""

from mi300bench.cli.main import main

__all__ = ["main"]
