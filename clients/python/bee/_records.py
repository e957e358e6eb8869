"""Records of runs, as bee's JSON has them, in types."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._errors import BeeError, error_of_run
from ._program import Program


def time_of(text: Optional[str]) -> Optional[datetime]:
    """Return a time of RFC 3339, to the microsecond; "" and None are none."""
    if not text:
        return None
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if not found:
        raise ValueError(f"{text!r} is no time of RFC 3339")
    seconds, fraction, zone = found.groups()
    micro = ((fraction or ".0")[1:] + "000000")[:6]
    offset = "+00:00" if zone == "Z" else zone
    return datetime.fromisoformat(f"{seconds}.{micro}{offset}").astimezone(timezone.utc)


@dataclass(frozen=True)
class Output:
    """Outputs that were collected into one place.

    ``to`` is a directory, or a place such as ``s3://bucket/prefix``. ``names`` are the
    first of ``count`` files.
    """

    to: str
    count: int
    names: Tuple[str, ...]

    @property
    def paths(self) -> List[Path]:
        """The files of ``names`` on this machine; none of a remote place."""
        if "://" in self.to:
            return []
        return [Path(self.to) / name for name in self.names]


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run on one site. ``record`` has all fields."""

    number: int
    site: str
    runtime: str
    hosts: Tuple[str, ...]
    exit_code: Optional[int]
    outputs: Tuple[Output, ...]
    record: Mapping[str, Any]

    @property
    def started(self) -> Optional[datetime]:
        return time_of(self.record.get("started"))

    @property
    def ended(self) -> Optional[datetime]:
        return time_of(self.record.get("ended"))


@dataclass(frozen=True)
class Event:
    """An event of a run. ``kind`` and ``fields`` are for programs; ``text`` may change."""

    run: str
    number: int
    time: datetime
    attempt: int
    kind: str
    fields: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class Piece:
    """A piece of the output of a run: ``stream`` is ``stdout`` or ``stderr``."""

    attempt: int
    stream: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def attempt_of(record: Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=record["number"],
        site=record.get("site", ""),
        runtime=record.get("runtime", ""),
        hosts=tuple(record.get("hosts") or ()),
        exit_code=record.get("exit_code"),
        outputs=tuple(
            Output(o["to"], o.get("count", 0), tuple(o.get("names") or ())) for o in record.get("outputs") or ()
        ),
        record=record,
    )


def event_of(record: Mapping[str, Any]) -> Event:
    moment = time_of(record["time"])
    assert moment is not None
    return Event(
        run=record["run"],
        number=record["number"],
        time=moment,
        attempt=record.get("attempt", 0),
        kind=record["kind"],
        fields=record.get("fields") or {},
        text=record.get("text", ""),
    )


def piece_of(record: Mapping[str, Any]) -> Piece:
    data = base64.b64decode(record["base64"]) if "base64" in record else record.get("data", "").encode()
    return Piece(record.get("attempt", 0), record["stream"], data)


class Recorded:
    """What runs and arrays have, sync and async: the newest record that was read."""

    def __init__(self, program: Program, record: Dict[str, Any]) -> None:
        self._program = program
        self._record = record

    @property
    def record(self) -> Dict[str, Any]:
        """All fields of the record (docs/reference/json.md)."""
        return self._record

    @property
    def id(self) -> str:
        return str(self._record["id"])

    @property
    def name(self) -> str:
        return str(self._record.get("name", ""))

    @property
    def state(self) -> str:
        """``queued``, ``running``, ``suspended``, ``set aside``, ``succeeded``, ``failed`` or ``stopped``."""
        return str(self._record["state"])

    @property
    def over(self) -> bool:
        """Whether it has succeeded, failed or was stopped; an array, once all its cases have or were."""
        return self.state in ("succeeded", "failed", "stopped")


class RunRecord(Recorded):
    """What both kinds of runs, sync and async, have."""

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code of the job's command, or None."""
        code: Optional[int] = self._record.get("exit_code")
        return code

    @property
    def error(self) -> Optional[BeeError]:
        """The error with which the run ended, or by which it is suspended."""
        if self.state not in ("failed", "stopped", "suspended", "set aside"):
            return None
        return error_of_run(self._record)

    @property
    def why(self) -> str:
        """What the run waits for, or why it ended; the wording may change."""
        return str(self._record.get("why", ""))

    @property
    def created(self) -> Optional[datetime]:
        return time_of(self._record.get("created"))

    @property
    def ended(self) -> Optional[datetime]:
        return time_of(self._record.get("ended"))

    @property
    def labels(self) -> Dict[str, str]:
        return dict(self._record.get("labels") or {})

    @property
    def cost(self) -> float:
        """Cost so far, by the prices in the sites file."""
        return float(self._record.get("cost", 0))

    @property
    def attempts(self) -> List[Attempt]:
        return [attempt_of(a) for a in self._record.get("attempts") or ()]

    @property
    def outputs(self) -> List[Output]:
        """The outputs of the last attempt that has left any."""
        for attempt in reversed(self.attempts):
            if attempt.outputs:
                return list(attempt.outputs)
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__module__.split('._')[0]}.Run {self.id} {self.name!r}: {self.state}>"

    def _repr_html_(self) -> str:
        from ._notebook import html

        return html(self)


class ArrayRecord(Recorded):
    """What both kinds of arrays, sync and async, have."""

    @property
    def states(self) -> Dict[str, int]:
        """How many cases are in which state; empty until the record is read again."""
        return dict(self._record.get("states") or {})

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {state}" for state, n in self.states.items())
        return f"<{type(self).__module__.split('._')[0]}.Array {self.id} {self.name!r}: {counts or self.state}>"
