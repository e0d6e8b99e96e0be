"""Errors a user can act on. Each has a hint, the next step, and an exit code of its own.

Mi300benchError
    PlanError       2   the request makes no sense
    NodeError       3   this machine cannot do it
    RecordError     4   stored data cannot be read
    ProbeError      5   at least one point failed; the rest is saved
    CheckError      6   all was read, and it does not pass: a figure that cannot be right, a machine that got slower
"""

from typing import ClassVar


class Mi300benchError(Exception):
    """Base of all errors that end a command with a message instead of a trace."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class PlanError(Mi300benchError):
    """The sweep, the options or a config do not make sense."""

    exit_code = 2


class NodeError(Mi300benchError):
    """This machine cannot run the request."""

    exit_code = 3


class RecordError(Mi300benchError):
    """Stored data cannot be read, or cannot answer the question."""

    exit_code = 4


class ProbeError(Mi300benchError):
    """At least one point failed; every other record is saved."""

    exit_code = 5


class CheckError(Mi300benchError):
    """What was checked does not pass: a figure that cannot be right, a point that got slower."""

    exit_code = 6
