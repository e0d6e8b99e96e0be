"""The entry point: the table of commands, and errors as messages and exit codes."""

import difflib
import importlib
import os
import sys

import click

from mi300bench.errors import Mi300benchError

# name: (module in this package, summary). The table is printed without importing a command.
COMMANDS = {
    "node": ("machine.node", "Describe this machine, and list doubts about it."),
    "hbm": ("machine.hbm", "Measure memory bandwidth by pattern and size."),
    "gemm-sweep": ("machine.gemm_sweep", "Measure matrix products: a grid, a list, or a model's."),
    "collectives": ("machine.collectives", "Measure collectives by size and number of ranks."),
    "overlap": ("machine.overlap", "Measure how communication and computation slow each other."),
    "sweep": ("machine.sweep", "List, plan, run and repeat sweeps, which are TOML files."),
    "query": ("records.query", "Run an SQL query on the records of the store."),
    "plan": ("trainer.plan", "Compile a training step of any size without its weights."),
    "tune": ("trainer.tune", "Tune a trainer from the records of the store."),
    "explain": ("trainer.explain", "Explain the choices of a tuned config."),
    "export": ("trainer.export", "Print a tuned config for another framework."),
    "train": ("trainer.train", "Train a reference model."),
    "compare": ("records.compare", "Find the point, node, GPU or link that got slower, and when."),
    "import": ("records.import_", "Import the logs of other tools as records."),
    "lint": ("records.lint", "Check figures against physics and published peaks."),
    "scaling": ("machine.scaling", "Measure a trainer's step on 1, 2, 4, ... devices."),
    "report": ("records.report", "Write a report of the store as one HTML file."),
    "autotune": ("trainer.autotune", "Measure this machine, tune a trainer, confirm, and report."),
}
INTERRUPTED = 130


class Commands(click.Group):
    """A group that lists its commands from a table, and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {cmd_name!r}.{meant}")
        module = importlib.import_module(f"mi300bench.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mi300bench")
def cli() -> None:
    """Measure a node, tune training from the measurements, and confirm the result by running it.

    Start with: mi300bench autotune zaya1 --budget 5m
    """


def main() -> None:
    """Run the command line and exit with 0, or with the code of the error (`mi300bench.errors`)."""
    try:
        status = cli.main(standalone_mode=False)
    except Mi300benchError as error:
        click.echo(f"Error: {error}\nTry: {error.hint}", err=True)
        status = error.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped", err=True)
        status = INTERRUPTED
    except SystemExit as end:
        status = 0 if reader_has_left() else end.code
    leave(status if isinstance(status, int) else 0)


def reader_has_left() -> bool:
    """Whether the reader of our output closed it, as `head` does, which is not an error of ours.

    click meets the broken pipe before we can: it wraps the stdout, and exits with 1.
    """
    return sys.stdout is not sys.__stdout__


def leave(status: int) -> None:
    """Exit; a rank that a launcher started exits without Python's cleanup.

    At cleanup torch sometimes aborts the process, if a thread of the communication backend is still
    running ("terminate called without an active exception"). The launcher would then report a run
    that ended well as failed.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
