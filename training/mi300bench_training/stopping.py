"""Ctrl-C, or a launcher's SIGTERM, ends a run after the step at hand, so that nothing trained is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_between_steps() -> Iterator[threading.Event]:
    """Give an event that the first signal sets: a step is not cut in half. The second one ends at once."""
    event = threading.Event()

    def ask(number: int, _frame: object) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
