"""Ctrl-C, or a launcher's SIGTERM, ends a run after the current step, so that its work is saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_between_steps() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; the caller ends after its step.

    A second signal ends the process at once.
    """
    event = threading.Event()

    def request_stop(number: int, _frame: object) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, request_stop)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
