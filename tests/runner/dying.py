"""Probes for tests that die, hang or fail on purpose."""

import os
import signal
import time
from typing import final

import torch.distributed as dist
from mi300bench.schema.probe import AbstractProbe
from mi300bench.schema.record import Work


class AbstractQuiet(AbstractProbe):
    """Does nothing and gives a right answer."""

    def work(self) -> Work:
        return Work()

    def prepare(self) -> None: ...

    def call(self) -> None: ...

    def check(self) -> str:
        return ""


@final
class Quiet(AbstractQuiet):
    """Waits for `seconds`."""

    def call(self) -> None:
        time.sleep(float(str(self.params.get("seconds", 0.001))))


@final
class Dies(AbstractQuiet):
    """The rank `rank` kills itself in the middle of a collective."""

    def call(self) -> None:
        if self.context.rank == self.params["rank"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.context.ranks > 1:
            import torch

            dist.all_reduce(torch.ones(4))


@final
class Hangs(AbstractQuiet):
    """Never returns."""

    def call(self) -> None:
        time.sleep(1000)


@final
class Raises(AbstractQuiet):
    """Cannot be prepared."""

    def prepare(self) -> None:
        raise MemoryError("cannot allocate 4 TiB")


@final
class Lies(AbstractQuiet):
    """Gives a wrong answer."""

    def check(self) -> str:
        return "2 + 2 = 5"
