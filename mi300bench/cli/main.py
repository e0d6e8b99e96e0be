"""The entry point: a table of commands, errors turned into messages and exit codes."""

import importlib
import os
import sys

import click

from mi300bench.errors import Mi300benchError

# name: (module in this package, what it does). The table is printed without importing a command.
COMMANDS = {
    "node": ("node", "What this machine is, and what is doubtful about it."),
    "hbm": ("hbm", "Memory bandwidth by pattern and size, through the caches."),
    "gemm-sweep": ("gemm_sweep", "Matrix products: a grid, a list, or the shapes of a model."),
    "collectives": ("collectives", "Collectives by size and number of ranks."),
    "overlap": ("overlap", "A collective beside computation: how much each slows."),
    "sweep": ("sweep", "Sweeps written as TOML: list, plan, run."),
    "query": ("query", "SQL over everything that was measured."),
    "plan": ("plan", "A training step of any size, compiled without its weights."),
    "tune": ("tune", "Choose a trainer's configuration from the store."),
    "explain": ("explain", "Why a tuned config says what it says."),
    "export": ("export", "A tuned config for another framework."),
    "train": ("train", "Run a reference trainer."),
    "compare": ("compare", "Which point, node, GPU or pair got slower, and since when."),
    "import": ("import_", "What other tools wrote, as records."),
    "lint": ("lint", "Figures against physics, published peaks and their own arithmetic."),
    "scaling": ("scaling", "A trainer's step on 1, 2, 4, ... devices."),
    "report": ("report", "The store as one HTML file."),
    "autotune": ("autotune", "The whole job: measure, tune, confirm, report."),
}
INTERRUPTED = 130


class Commands(click.Group):
    """A group that knows its commands by table and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mi300bench.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mi300bench")
def cli() -> None:
    """Measure a node, let the measurements choose the training configuration, prove the choice.

    Start with: mi300bench autotune zaya1 --budget 5m
    """


def main() -> None:
    """Run the command line and exit: 0 all good, else the code of the error (see `mi300bench.errors`)."""
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
    except BrokenPipeError:  # the reader of our output went away: not our error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    leave(status if isinstance(status, int) else 0)


def leave(status: int) -> None:
    """Exit. A rank of a launcher's group leaves without the interpreter's farewell.

    torch aborts the process where a thread of the communication backend is still there at the end ("terminate called
    without an active exception"), now and then, and the launcher would call a finished run failed.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
