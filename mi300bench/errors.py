"""Errors that a user can act on. Each has a hint (the next step) and its own exit code.

Mi300benchError
    PlanError       2   the request makes no sense
    NodeError       3   this machine cannot run the request
    RecordError     4   stored data cannot be read
    ProbeError      5   at least one point failed; all other records are saved
    CheckError      6   a check failed: an impossible figure, or a machine that got slower
"""

from typing import ClassVar


class Mi300benchError(Exception):
    """Base of all errors that end a command with a message instead of a traceback."""

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
    """At least one point failed; all other records are saved."""

    exit_code = 5


class CheckError(Mi300benchError):
    """A check failed: an impossible figure, or a point that got slower."""

    exit_code = 6
