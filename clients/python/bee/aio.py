"""The async twins: the same names, to be awaited.

    run = await bee.aio.run("you/app:1", "mpirun ./app", nodes=2)
    await run.wait()

A task that is cancelled while it waits leaves the run alone.
"""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Union

from . import _calls
from ._array import frame, rows_of
from ._calls import Command, Job
from ._program import Client
from ._records import ArrayRecord, Event, Piece, RunRecord, event_of, piece_of

__all__ = ["Array", "Bee", "Run", "array", "get", "run", "runs", "version"]


class Run(RunRecord):
    """The async twin of bee.Run."""

    async def reload(self) -> Run:
        self._record = await self._program.do_async(_calls.show(self.id))
        return self

    async def wait(self, timeout: Optional[float] = None, check: bool = True) -> Run:
        self._record = await self._program.do_async(_calls.wait(self.id, timeout))
        error = self.error
        if check and error is not None:
            raise error
        return self

    async def stop(self, without_outputs: bool = False) -> Run:
        await self._program.do_async(_calls.stop(self.id, without_outputs))
        return await self.reload()

    async def checkpoint(self) -> Run:
        await self._program.do_async(_calls.asked("checkpoint", self.id))
        return await self.reload()

    async def move(self, sites: Union[str, Sequence[str], None] = None) -> Run:
        await self._program.do_async(_calls.asked("move", self.id, sites))
        return await self.reload()

    async def resume(self, sites: Union[str, Sequence[str], None] = None) -> Run:
        await self._program.do_async(_calls.asked("resume", self.id, sites))
        return await self.reload()

    async def remove(self, force: bool = False) -> None:
        await self._program.do_async(_calls.remove(self.id, force))

    async def logs(self) -> str:
        return b"".join([p.data async for p in self.pieces()]).decode("utf-8", "replace")

    async def pieces(self, follow: bool = False) -> AsyncIterator[Piece]:
        async for line in self._program.lines_async(_calls.logs(self.id, follow)):
            yield piece_of(line)

    async def events(self, follow: bool = False) -> AsyncIterator[Event]:
        async for line in self._program.lines_async(_calls.events(self.id, follow)):
            yield event_of(line)


class Array(ArrayRecord):
    """The async twin of bee.Array."""

    async def reload(self) -> Array:
        self._record = await self._program.do_async(_calls.show(self.id))
        return self

    async def wait(self, timeout: Optional[float] = None, check: bool = True) -> Array:
        error = await self._program.do_async(_calls.wait_for_cases(self.id, timeout))
        await self.reload()
        if check and error is not None:
            raise error
        return self

    async def stop(self, without_outputs: bool = False) -> Array:
        await self._program.do_async(_calls.stop(self.id, without_outputs))
        return await self.reload()

    async def remove(self, force: bool = False) -> None:
        await self._program.do_async(_calls.remove(self.id, force))

    async def retry(self, sites: Union[str, Sequence[str], None] = None, trust: bool = False) -> Array:
        return Array(self._program, await self._program.do_async(_calls.retry(self.id, sites, trust)))

    async def runs(self) -> List[Run]:
        return [Run(self._program, await self._program.do_async(_calls.show(row["run"]))) for row in await self.rows()]

    async def rows(self) -> List[Dict[str, str]]:
        return rows_of(await self._program.do_async(_calls.table(self.id)))

    async def dataframe(self) -> Any:
        return frame(await self._program.do_async(_calls.table(self.id)))


class Bee(Client):
    """The async twin of bee.Bee."""

    async def version(self) -> str:
        await self._program.checked_async()
        return self._program.version

    async def run(
        self,
        job: Job,
        command: Command = None,
        *,
        name: Optional[str] = None,
        nodes: Optional[int] = None,
        cores: Optional[int] = None,
        memory: Optional[str] = None,
        time: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        labels: Optional[Mapping[str, str]] = None,
        inputs: Any = None,
        outputs: Any = None,
        sites: Union[str, Sequence[str], None] = None,
        pull: Optional[str] = None,
        trust: bool = False,
        **keys: Any,
    ) -> Run:
        given = dict(
            name=name, nodes=nodes, cores=cores, memory=memory, time=time, env=env, labels=labels, inputs=inputs, outputs=outputs, **keys
        )
        return Run(self._program, await self._program.do_async(_calls.submit(job, command, sites, pull, trust, given)))

    async def array(
        self,
        job: Job,
        command: Command = None,
        *,
        cases: Any = None,
        exclude: Any = None,
        at_once: Optional[int] = None,
        pack: Optional[int] = None,
        on_failure: Any = None,
        sites: Union[str, Sequence[str], None] = None,
        pull: Optional[str] = None,
        trust: bool = False,
        **keys: Any,
    ) -> Array:
        array = dict(cases=cases, exclude=exclude, at_once=at_once, pack=pack, on_failure=on_failure)
        return Array(self._program, await self._program.do_async(_calls.submit_array(job, command, sites, pull, trust, array, keys)))

    async def get(self, run: str) -> Run:
        return Run(self._program, await self._program.do_async(_calls.show(run)))

    async def runs(self, all: bool = False, *, name: Optional[str] = None, label: Optional[str] = None, limit: int = 0) -> List[Run]:
        return [Run(self._program, r) for r in await self._program.do_async(_calls.runs(all, name, label, limit))]


_default = Bee()
run = _default.run
array = _default.array
get = _default.get
runs = _default.runs
version = _default.version
