"""Options that several commands have, and the settings that follow from them."""

import sys
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
DEVICES = ("auto", "cpu", "cuda", "rocm")

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


# torchrun also parses the options of a script: it reads --node as its own --node-rank.
node_option = click.option(
    "--node",
    default="",
    envvar="MI300BENCH_NODE",
    show_envvar=True,
    help="Name of this machine in the store. Default: the host name. Under torchrun set the "
    "variable MI300BENCH_NODE instead.",
)


def device_option(text: str) -> Callable[[Function], Function]:
    """Return the option --device with `text` as its help."""
    return click.option(
        "--device", type=click.Choice(DEVICES), default="auto", show_default=True, help=text
    )


def measuring_options(function: Function) -> Function:
    """Add the options of every command that measures."""
    options = [
        store_option,
        json_option,
        device_option("Device to measure. auto is a GPU if its driver is loaded, else the CPU."),
        node_option,
        click.option(
            "--origin",
            type=click.Choice(["measured", "emulated"]),
            default="measured",
            show_default=True,
            help="Label of the records. Give emulated if the machine or its network is emulated: "
            "this cannot be detected.",
        ),
        click.option(
            "--source",
            default="",
            help="Description of what is emulated, for --origin emulated.",
        ),
        click.option(
            "--budget",
            default="",
            help="Time limit of the whole command, such as 5m. Points that do not fit are left "
            "out, and their number is printed.",
        ),
        click.option(
            "--passes",
            type=int,
            default=3,
            show_default=True,
            help="Number of fresh processes that measure each point.",
        ),
        click.option(
            "--resume", is_flag=True, help="Continue the newest unfinished run of the same points."
        ),
        click.option(
            "--launch",
            "launcher",
            default="",
            metavar="COMMAND",
            help="Command that starts the ranks, such as 'srun -n 16'. Default: our own launcher.",
        ),
        click.option(
            "--limit",
            default="5m",
            show_default=True,
            help="Time limit of one point, after which it fails.",
        ),
    ]
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
    """Give the settings of a measuring command, with a progress bar if stderr is a terminal."""
    with _progress() as progress:
        named: dict[str, Any] = {"node": node} if node else {}
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
            **named,
        )


def store_settings(store: Path, node: str) -> Settings:
    """Return the settings of a command that only writes to a store."""
    named: dict[str, Any] = {"node": node} if node else {}
    return Settings(store=store, say=say, **named)


def say(text: str) -> None:
    """Print a message on stderr."""
    click.echo(text, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Give a function that moves a progress bar, or None if stderr is not a terminal."""
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


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a comma-separated option."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def dtypes(text: str) -> tuple[str, ...]:
    """Return the data types of a comma-separated option."""
    return tuple(dtype_name(part) for part in words(text))


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers of a comma-separated option."""
    try:
        return tuple(int(part) for part in words(text))
    except ValueError as cause:
        raise PlanError(
            f"cannot read {option} {text!r} as a list of whole numbers",
            hint=f"separate them by commas, such as {option} 2,4,8",
        ) from cause


def shape_of(text: str) -> tuple[int, int, int]:
    """Return the (M, N, K) of a shape such as ``512x512x512``."""
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
        raise PlanError(
            f"cannot read {text!r} as a shape", hint="give MxNxK, such as --shapes 512x512x512"
        )
    m, n, k = (int(part) for part in parts)
    return m, n, k
