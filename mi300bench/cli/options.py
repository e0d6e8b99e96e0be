"""Options that several commands share, and the settings they make."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from mi300bench.errors import PlanError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.record import Origin
from mi300bench.units import dtype_name, parse_duration

Function = TypeVar("Function", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    envvar="MI300BENCH_STORE",
    show_default=True,
    show_envvar=True,
    help="Folder of the records.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


# torchrun's own parser reads through to a script's options and takes --node for its --node-rank: hence the variable.
node_option = click.option(
    "--node",
    default="",
    envvar="MI300BENCH_NODE",
    show_envvar=True,
    help="Name of this machine in the store; default the host name. Under torchrun use the variable.",
)


def measuring_options(function: Function) -> Function:
    """Add the options of every command that measures."""
    options = [
        store_option,
        json_option,
        click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "rocm"]), default="auto", show_default=True,
                     help="What to measure; auto is the accelerator found, else the CPU."),
        node_option,
        click.option("--origin", type=click.Choice(["measured", "emulated"]), default="measured", show_default=True,
                     help="Say emulated where the machine or network is made up; nothing detects it."),
        click.option("--source", default="", help="What is emulated, in words; goes with --origin emulated."),
        click.option("--budget", default="", help="Time for everything, such as 5m; what does not fit is left out and counted."),
        click.option("--passes", type=int, default=3, show_default=True, help="Fresh processes for each point."),
        click.option("--resume", is_flag=True, help="Continue the newest unfinished run of the same plan."),
        click.option("--launch", "launcher", default="", metavar="COMMAND",
                     help="Command that starts the ranks instead of torch's launcher, such as 'srun -n 16'."),
        click.option("--limit", default="5m", show_default=True, help="Longest that one point may take."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@contextmanager
def settings_of(
    *,
    store: Path,
    node: str,
    origin: str,
    source: str,
    budget: str,
    passes: int,
    resume: bool,
    launcher: str,
    limit: str,
) -> Iterator[Settings]:
    """Give the settings of a command, with a progress bar where a person looks on."""
    with _progress() as progress:
        chosen: dict[str, Any] = {"node": node} if node else {}
        yield Settings(
            store=store,
            origin=Origin(origin),
            source=source,
            launcher=launcher,
            resume=resume,
            passes=passes,
            limit_s=parse_duration(limit),
            deadline=time.monotonic() + parse_duration(budget) if budget else None,
            say=say,
            progress=progress,
            **chosen,
        )


def say(text: str) -> None:
    """Print a line for people on stderr."""
    click.echo(text, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Give a function that moves a progress bar on a terminal; None elsewhere."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def move(text: str, done: int, total: int) -> None:
            bar.update(task, description=text[:80], completed=done, total=total)

        yield move


def device_of(device: str) -> str:
    """Return the device kind; ``auto`` is what the drivers tell."""
    from mi300bench.measurement.local_topology import detect_device

    return detect_device() if device == "auto" else device


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a comma-separated option."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def dtypes(text: str) -> tuple[str, ...]:
    """Return the dtypes of a comma-separated option."""
    return tuple(dtype_name(part) for part in words(text))


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers of a comma-separated option."""
    try:
        return tuple(int(part) for part in words(text))
    except ValueError as cause:
        raise PlanError(
            f"{option} {text!r} is not a list of whole numbers", hint=f"such as {option} 2,4,8"
        ) from cause
