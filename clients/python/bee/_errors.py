"""Exceptions, one for each kind of error that bee has, with its remedy."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Type


class BeeError(Exception):
    """An error of bee or of a run.

    ``kind`` is the error's kind as in bee's JSON, ``remedy`` the next step as an
    instruction, or "". ``record`` is the record of the run that failed, or None.
    ``problems`` are the faults of a Beefile, each with its line.
    """

    kind = "permanent"

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        record: Optional[Mapping[str, Any]] = None,
        problems: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.record = record
        self.problems = list(problems)

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class PermanentError(BeeError):
    """A retry does not remove the cause."""


class InvalidError(BeeError):
    """An argument, a Beefile or the sites file is wrong; nothing was started."""

    kind = "invalid"


class NotFoundError(BeeError):
    """A run, an image or a site does not exist, or an output is absent."""

    kind = "not found"


class BusyError(BeeError):
    """Another process or run holds what is needed."""

    kind = "busy"


class UnsupportedError(BeeError):
    """This machine or site cannot do it."""

    kind = "unsupported"


class TransientError(BeeError):
    """A network or a service failed; a retry may help."""

    kind = "transient"


class LostError(BeeError):
    """A host was lost, or the time slot ended before the job."""

    kind = "lost"


class StoppedError(BeeError):
    """The run was stopped by its user."""

    kind = "stopped"


class TaskError(PermanentError):
    """The job's own command failed, with ``exit_code``."""

    def __init__(self, message: str, exit_code: int, **more: Any) -> None:
        super().__init__(message, **more)
        self.exit_code = exit_code


class WaitTimeoutError(BusyError, TimeoutError):
    """The run is not over after the time to wait. It continues."""


class ProgramNotFoundError(NotFoundError):
    """There is no program bee."""


class VersionError(UnsupportedError):
    """The program bee is too old or too new for this package."""


KINDS: Dict[str, Type[BeeError]] = {
    c.kind: c
    for c in (
        PermanentError,
        InvalidError,
        NotFoundError,
        BusyError,
        UnsupportedError,
        TransientError,
        LostError,
        StoppedError,
    )
}

# Exit codes of bee (docs/reference/exit-codes.md).
CODES: Dict[int, str] = {
    200: "permanent",
    201: "invalid",
    202: "not found",
    203: "busy",
    204: "unsupported",
    205: "transient",
    206: "lost",
    207: "stopped",
}


def error_of_run(record: Mapping[str, Any]) -> BeeError:
    """Return the error with which a run ended that has not succeeded."""
    error = record.get("error") or {}
    message = f"run {record.get('id')} of {record.get('name')} is {record.get('state')}"
    if error.get("message"):
        message += f": {error['message']}"
    remedy = error.get("remedy", "")
    code = record.get("exit_code")
    if code:
        return TaskError(message, code, remedy=remedy, record=record)
    kind = error.get("kind") or ("stopped" if record.get("state") == "stopped" else "permanent")
    return KINDS.get(kind, PermanentError)(message, remedy=remedy, record=record)
