"""A run of a reference trainer: options in, record in the store.

`prepare_training` resolves the options. If the run then `needs_ranks`, `start_ranks` starts them;
otherwise `train` trains in this process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mi300bench.api.measuring import AUTO, device_kind
from mi300bench.errors import PlanError, ProbeError
from mi300bench.measurement.settings import Settings
from mi300bench.schema.model import Gemm
from mi300bench.schema.record import Measurement, Outcome, World
from mi300bench.trainers import run
from mi300bench.trainers.launching import launcher_of, run_settings
from mi300bench.trainers.registry import spec_of

DEFAULT_PRESET = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What to train. An option that is left out has the value of the preset or the tuned config.

    preset      a model by name, ``tiny`` by default; excludes `tuned`
    tuned       the file of a tuned config, which is the whole config
    data        a text file, or a folder of them
    keys        dotted keys of the config to set, such as ``data.micro_batch``
    ranks       local ranks; by default one for each GPU, or for each core up to two
    checkpoint  the folder of checkpoints, one `every` so many steps
    resume      continue from the newest checkpoint
    """

    trainer: str
    preset: str = ""
    tuned: Path | None = None
    steps: int | None = None
    seed: int | None = None
    data: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)
    device: str = AUTO
    ranks: int | None = None
    checkpoint: Path | None = None
    every: int = 50
    resume: bool = False

    def __post_init__(self) -> None:
        if self.tuned is not None and self.preset:
            raise PlanError(
                "--preset and --config exclude each other",
                hint="omit --preset: a tuned config is the whole config",
            )
        if self.resume and self.checkpoint is None:
            raise PlanError("--resume needs the folder of a checkpoint", hint="--checkpoint FOLDER")
        if self.ranks is not None and self.ranks < 1:
            raise PlanError(f"--ranks must be at least 1 (got {self.ranks})", hint="omit it")
        if self.every < 1:
            raise PlanError(f"--every must be at least 1 (got {self.every})", hint="--every 50")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The parameters of a model by kind, and its matrix products."""

    parameters: Mapping[str, int]
    products: tuple[Gemm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A run that can start: its config, its settings, and the ranks and devices it trains on."""

    request: run.TrainRequest
    settings: Settings
    world: World

    @property
    def needs_ranks(self) -> bool:
        """Return whether the run has several ranks and no launcher has started them."""
        return launcher_of(self.request.spec).needs_ranks(self.world)


def _request(options: TrainOptions) -> run.TrainRequest:
    spec = spec_of(options.trainer)
    config, is_tuned = run.resolve(
        spec,
        preset=options.preset or DEFAULT_PRESET,
        tuned=options.tuned,
        steps=options.steps,
        data=options.data,
        seed=options.seed,
        keys=options.keys,
    )
    return run.TrainRequest(
        spec=spec,
        config=config,
        is_tuned=is_tuned,
        folder=options.checkpoint,
        every=options.every,
        resume=options.resume,
    )


def model_size(options: TrainOptions) -> ModelSize:
    """Return the size of the model without allocating it."""
    request = _request(options)
    return ModelSize(
        parameters=request.spec.counts(request.config),
        products=request.spec.describe(request.config).gemms,
    )


def prepare_training(options: TrainOptions, settings: Settings) -> TrainingRun:
    """Return the run that `options` describe. Sets the variables that JAX reads at its start."""
    request = _request(options)
    kind, launcher = device_kind(options.device), launcher_of(request.spec)
    groups = run_settings(request.spec, request.config)
    world = launcher.world(kind, options.ranks, groups)
    prepared = launcher.prepare(groups, kind, settings)
    return TrainingRun(request=request, settings=prepared, world=world)


def start_ranks(training: TrainingRun, arguments: Sequence[str]) -> int:
    """Start the ranks of a run with torchrun, wait for them, and return the exit status.

    Each rank runs `mi300bench` with `arguments`, such as ``["train", "zaya1"]``.
    """
    return run.relaunch(training.request, arguments, training.world, node=training.settings.node)


def train(training: TrainingRun) -> Measurement:
    """Train in this process and return the record, which the first process has stored."""
    return run.train(training.request, training.settings, training.world)


def require_trained(record: Measurement) -> None:
    """Raise `ProbeError` if the run failed or was interrupted."""
    if record.outcome is not Outcome.OK:
        raise ProbeError(
            record.reason,
            hint="the steps so far are in the store; to continue from a checkpoint: --resume",
        )
