"""What a run has measured, step by step, and the record made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mi300bench.device.base import AbstractDevice
from mi300bench.schema.record import Measurement, Scalar, Work, World

from mi300bench_training.ending import Ending


@dataclass(slots=True, kw_only=True)
class RunHistory:
    """Loss, seconds and further readings of every step since the first one, across all resumes."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Return how many steps are done."""
        return len(self.losses)

    def add(self, loss: float, seconds: float, **readings: float) -> None:
        """Append one step."""
        self.losses.append(loss)
        self.seconds.append(seconds)
        for name, value in readings.items():
            self.series.setdefault(name, []).append(value)

    def progress_line(self, *, tokens: int) -> str:
        """Return the last step as a line for people; a step trains on `tokens` tokens."""
        loss, seconds = self.losses[-1], self.seconds[-1]
        rate = tokens / seconds
        return f"step {self.steps:>5}  loss {loss:.4f}  {seconds:.3f} s  {rate:.0f} tokens/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that has ended. Only a finished run has a held-out loss."""

    history: RunHistory
    ending: Ending
    steps: int
    held_out_loss: float | None
    started_at: str

    @property
    def reason(self) -> str:
        """Return why the run did not finish; empty for a finished run."""
        return self.ending.reason(
            step=self.history.steps, steps=self.steps, loss=self.history.losses[-1]
        )

    @property
    def summary(self) -> str:
        """Return the last line for people."""
        return self.reason or f"held-out loss {self.held_out_loss:.4f}"

    def record(
        self,
        *,
        probe: str,
        method: int,
        params: Mapping[str, Scalar],
        world: World,
        device: AbstractDevice,
        flop: float,
    ) -> Measurement:
        """Return the run as a record.

        A sample is the seconds of one step, which computes `flop`.
        """
        series = {name: tuple(values) for name, values in self.history.series.items()}
        series["loss"] = tuple(self.history.losses)
        if self.held_out_loss is not None:
            series["held_out_loss"] = (self.held_out_loss,)
        return Measurement(
            probe=probe,
            method=method,
            params=params,
            world=world,
            outcome=self.ending.outcome,
            reason=self.reason,
            samples=tuple(self.history.seconds),
            work=Work(flop=flop),
            series=series,
            conditions=device.conditions(),
            doubts=device.doubts(),
            device=device.name,
            started_at=self.started_at,
        )
