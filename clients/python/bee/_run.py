"""Runs, which wait for bee."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence, Union

from . import _calls
from ._records import Event, Piece, RunRecord, event_of, piece_of


class Run(RunRecord):
    """A run. Its properties are those of the newest record that was read.

    ``wait`` and ``reload`` read it. An interrupt of ``wait``, such as Ctrl-C in a cell,
    leaves the run alone.
    """

    def reload(self) -> Run:
        """Read the record of the run."""
        self._record = self._program.do(_calls.show(self.id))
        return self

    def wait(self, timeout: Optional[float] = None, check: bool = True) -> Run:
        """Wait until the run is over.

        A run that is suspended needs its user, and counts as over here. With ``check``,
        the error of a run that has not succeeded is raised. After ``timeout`` seconds,
        WaitTimeoutError is raised, and the run continues.
        """
        self._record = self._program.do(_calls.wait(self.id, timeout))
        error = self.error
        if check and error is not None:
            raise error
        return self

    def stop(self, without_outputs: bool = False) -> Run:
        """Stop the run and wait for its end; its outputs are collected."""
        self._program.do(_calls.stop(self.id, without_outputs))
        return self.reload()

    def checkpoint(self) -> Run:
        """Ask for a checkpoint now."""
        self._program.do(_calls.asked("checkpoint", self.id))
        return self.reload()

    def move(self, sites: Union[str, Sequence[str], None] = None) -> Run:
        """Ask for a checkpoint, and continue on another site."""
        self._program.do(_calls.asked("move", self.id, sites))
        return self.reload()

    def resume(self, sites: Union[str, Sequence[str], None] = None) -> Run:
        """Continue a suspended run from its checkpoint."""
        self._program.do(_calls.asked("resume", self.id, sites))
        return self.reload()

    def remove(self, force: bool = False) -> None:
        """Remove the record, logs and checkpoints of a run that is over."""
        self._program.do(_calls.remove(self.id, force))

    def logs(self) -> str:
        """Return what the job has written so far, both streams in order."""
        return b"".join(p.data for p in self.pieces()).decode("utf-8", "replace")

    def pieces(self, follow: bool = False) -> Iterator[Piece]:
        """Yield what the job writes; with ``follow`` until the run is over."""
        for line in self._program.lines(_calls.logs(self.id, follow)):
            yield piece_of(line)

    def events(self, follow: bool = False) -> Iterator[Event]:
        """Yield the events of the run; with ``follow`` until the run is over."""
        for line in self._program.lines(_calls.events(self.id, follow)):
            yield event_of(line)

    def _ipython_display_(self) -> None:
        from ._notebook import show

        show(self)
