"""Run Docker images of MPI applications, unmodified, wherever you have an account.

    import bee

    run = bee.run("you/app:1", "mpirun ./app", nodes=2, outputs="result.txt")
    run.wait()
    run.outputs

This package calls the program bee, whose JSON it reads. ``bee.aio`` has the async twins.
"""

from . import aio
from ._array import Array
from ._client import Bee
from ._errors import (
    BeeError,
    BusyError,
    InvalidError,
    LostError,
    NotFoundError,
    PermanentError,
    ProgramNotFoundError,
    StoppedError,
    TaskError,
    TransientError,
    UnsupportedError,
    VersionError,
    WaitTimeoutError,
)
from ._records import Attempt, Event, Output, Piece
from ._run import Run

__all__ = [
    "Array",
    "Attempt",
    "Bee",
    "BeeError",
    "BusyError",
    "Event",
    "InvalidError",
    "LostError",
    "NotFoundError",
    "Output",
    "PermanentError",
    "Piece",
    "ProgramNotFoundError",
    "Run",
    "StoppedError",
    "TaskError",
    "TransientError",
    "UnsupportedError",
    "VersionError",
    "WaitTimeoutError",
    "aio",
    "array",
    "get",
    "run",
    "runs",
    "version",
]

_default = Bee()
run = _default.run
array = _default.array
get = _default.get
runs = _default.runs
version = _default.version
