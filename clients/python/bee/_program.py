"""The program bee: where it is, whether its version fits, and how it is called."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ._errors import CODES, KINDS, BeeError, PermanentError, ProgramNotFoundError, VersionError

T = TypeVar("T")

DISTRIBUTION = "bee-hpc"

# The first version of bee that this package can call, and the last major version whose
# JSON it knows: within one, fields are added, and not renamed or removed.
OLDEST = (0, 1)
NEWEST_MAJOR = 1

# A line of `bee events` or `bee logs` may be long.
LONGEST_LINE = 64 << 20


@dataclass(frozen=True)
class Answer:
    """How a call of bee ended."""

    arguments: Tuple[str, ...]
    code: int
    out: bytes
    err: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except ValueError:
            raise self.error() from None

    def error(self) -> BeeError:
        """The error that bee wrote, by its kind."""
        text = self.err.decode("utf-8", "replace")
        for line in reversed(text.splitlines()):
            if line.startswith("{"):
                try:
                    found = json.loads(line)
                    error = found["error"]
                    kind = KINDS.get(error["kind"], PermanentError)
                    return kind(error["message"], remedy=error.get("remedy", ""), problems=found.get("problems") or ())
                except (ValueError, KeyError, TypeError):
                    continue
        words = " ".join(("bee", *self.arguments))
        if self.code < 0:
            return PermanentError(f"{words}: ended by {signal.Signals(-self.code).name}")
        if self.code == 0:
            return VersionError(f"{words}: what it printed is not known here", remedy="Install the version of bee-hpc that belongs to the program bee.")
        return KINDS[CODES.get(self.code, "permanent")](text.strip() or f"{words}: ended with code {self.code}")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A call of bee, and how to read its answer.

    ``finish``: it changes something and is short, so that an interrupt waits for its end.
    """

    arguments: Tuple[str, ...]
    read: Callable[[Answer], T]
    input: Optional[bytes] = None
    finish: bool = False


def find_program() -> str:
    """Return the path of bee: the one that was installed with this package, else of PATH."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "bee" and file.parent.name == "bin":
            path = Path(str(file.locate()))
            if os.access(path, os.X_OK):
                return str(path.resolve())
    found = shutil.which("bee")
    if found is None:
        raise ProgramNotFoundError(
            "find the program bee: it is neither in PATH nor part of this installation",
            remedy="Install it, as by `pip install bee-hpc` on Linux, or name it: bee.Bee(program=...).",
        )
    return found


def check_version(program: str, answer: Answer) -> str:
    """Return the version of the program, which this package has to know."""
    try:
        text = str(json.loads(answer.out)["version"])
        found = re.match(r"v?(\d+)\.(\d+)", text)
    except (ValueError, KeyError, TypeError):
        found = None
    if found is None:
        raise VersionError(f"ask {program} for its version: it does not answer as bee does", remedy="Name the program: bee.Bee(program=...).")
    version = (int(found.group(1)), int(found.group(2)))
    if version < OLDEST:
        raise VersionError(
            f"{program} is bee {text}, and this package needs {OLDEST[0]}.{OLDEST[1]} or later",
            remedy="Install a newer bee, or an older version of the Python package bee-hpc.",
        )
    if version[0] > NEWEST_MAJOR:
        raise VersionError(
            f"{program} is bee {text}, and this package knows versions up to {NEWEST_MAJOR}.x",
            remedy="Install a newer version of the Python package: pip install --upgrade bee-hpc.",
        )
    return text


VERSION = Call(("version", "--json"), lambda answer: answer)


class Program:
    """Calls of one program with the same flags, which precede all others."""

    def __init__(self, path: Optional[str], flags: Sequence[str], env: Mapping[str, str]) -> None:
        self._given = path
        self._flags = flags
        self._env = env
        self._path = ""
        self.version = ""

    def _command(self, path: str, arguments: Tuple[str, ...]) -> List[str]:
        if arguments == VERSION.arguments:  # which every version knows
            return [path, *arguments]
        return [path, "--json-errors", *self._flags, *arguments]

    def _environ(self) -> Dict[str, str]:
        return {**os.environ, **self._env}

    def _find(self) -> str:
        return os.fspath(self._given) if self._given is not None else find_program()

    # What is called once has its result kept; a race finds the same.

    def checked(self) -> str:
        """Return the path of the program, whose version fits."""
        if not self._path:
            path = self._find()
            self.version = check_version(path, self._execute(path, VERSION))
            self._path = path
        return self._path

    async def checked_async(self) -> str:
        if not self._path:
            path = self._find()
            self.version = check_version(path, await self._execute_async(path, VERSION))
            self._path = path
        return self._path

    def do(self, call: Call[T]) -> T:
        return call.read(self._execute(self.checked(), call))

    async def do_async(self, call: Call[T]) -> T:
        return call.read(await self._execute_async(await self.checked_async(), call))

    def _execute(self, path: str, call: Call[Any]) -> Answer:
        try:
            process = subprocess.Popen(
                self._command(path, call.arguments),
                stdin=subprocess.DEVNULL if call.input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ(),
                start_new_session=call.finish,  # no Ctrl-C of the terminal reaches it
            )
        except OSError as err:
            raise _unstarted(path, err) from err
        try:
            out, err_text = process.communicate(call.input)
        except BaseException:
            try:
                if not call.finish:
                    process.terminate()
                process.communicate()
            except BaseException:
                process.kill()
                raise
            raise
        return Answer(call.arguments, process.returncode, out, err_text)

    async def _execute_async(self, path: str, call: Call[Any]) -> Answer:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(path, call.arguments),
                stdin=subprocess.DEVNULL if call.input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environ(),
                start_new_session=call.finish,
            )
        except OSError as err:
            raise _unstarted(path, err) from err
        ending = asyncio.ensure_future(process.communicate(call.input))
        try:
            out, err_text = await asyncio.shield(ending)
        except BaseException:
            if not call.finish and process.returncode is None:
                process.terminate()
            await ending
            raise
        assert process.returncode is not None
        return Answer(call.arguments, process.returncode, out, err_text)

    def lines(self, arguments: Tuple[str, ...]) -> Iterator[Dict[str, Any]]:
        """Yield the JSON lines that a call prints, as they come."""
        path = self.checked()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                self._command(path, arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=self._environ()
            )
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield json.loads(line)
                process.wait()
            finally:
                process.stdout.close()
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            _raise_for(arguments, process.returncode, errors)

    async def lines_async(self, arguments: Tuple[str, ...]) -> AsyncIterator[Dict[str, Any]]:
        path = await self.checked_async()
        with tempfile.TemporaryFile() as errors:
            process = await asyncio.create_subprocess_exec(
                *self._command(path, arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environ(),
                limit=LONGEST_LINE,
            )
            assert process.stdout is not None
            try:
                while True:
                    line = await process.stdout.readline()
                    if not line:
                        break
                    yield json.loads(line)
            finally:
                if process.returncode is None:
                    if not process.stdout.at_eof():
                        process.terminate()
                    await process.wait()
            assert process.returncode is not None
            _raise_for(arguments, process.returncode, errors)


class Client:
    """What both kinds of clients, sync and async, have: the program that they call."""

    def __init__(
        self,
        program: Optional[str] = None,
        *,
        state: Optional[str] = None,
        cache: Optional[str] = None,
        sites: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        flags: List[str] = []
        for flag, value in (("--state-dir", state), ("--cache", cache), ("--sites", sites)):
            if value is not None:
                flags += [flag, os.fspath(value)]
        self._program = Program(program, flags, dict(env or {}))


def _unstarted(path: str, err: OSError) -> BeeError:
    return ProgramNotFoundError(f"start {path}: {err.strerror}", remedy="Name another program: bee.Bee(program=...).")


def _raise_for(arguments: Tuple[str, ...], code: int, errors: Any) -> None:
    if code != 0:
        errors.seek(0)
        raise Answer(arguments, code, b"", errors.read()).error()
