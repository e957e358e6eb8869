"""The client, which waits for bee."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Union

from . import _calls
from ._array import Array
from ._calls import Command, Job
from ._program import Client
from ._run import Run


class Bee(Client):
    """A client of one program bee, with its own directories if they are given.

    ``program`` is the path of bee, ``state``, ``cache`` and ``sites`` are as for its flags,
    ``env`` is added to the environment.
    """

    def version(self) -> str:
        """Return the version of the program."""
        self._program.checked()
        return self._program.version

    def run(
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
        """Submit a run, and return without waiting for it.

        ``job`` is an image, the path of a Beefile, or a mapping with the keys of one.
        ``command`` is a text for the shell or a list of arguments; none is the image's own.
        All other keys of a Beefile are arguments as well. ``trust`` allows a Beefile or a
        mapping to leave its directory, as `--trust` of `bee run` does.
        """
        given = dict(
            name=name, nodes=nodes, cores=cores, memory=memory, time=time, env=env, labels=labels, inputs=inputs, outputs=outputs, **keys
        )
        return Run(self._program, self._program.do(_calls.submit(job, command, sites, pull, trust, given)))

    def array(
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
        """Submit an array, and return without waiting for it.

        ``job`` is a Beefile with an array, or what ``run`` takes, with ``cases``: a mapping of
        parameters to their values, a list of mappings, or the path of a file, which needs
        ``trust`` where ``job`` is no Beefile: others may have written it. The text
        ``${case.NAME}`` in the job stands for a value. All keys of a Beefile are arguments.
        """
        array = dict(cases=cases, exclude=exclude, at_once=at_once, pack=pack, on_failure=on_failure)
        return Array(self._program, self._program.do(_calls.submit_array(job, command, sites, pull, trust, array, keys)))

    def get(self, run: str) -> Run:
        """Return a run by its id, the first letters of it, or its name."""
        return Run(self._program, self._program.do(_calls.show(run)))

    def runs(self, all: bool = False, *, name: Optional[str] = None, label: Optional[str] = None, limit: int = 0) -> List[Run]:
        """Return the runs that are not over, newest first; with ``all`` the others, too."""
        return [Run(self._program, r) for r in self._program.do(_calls.runs(all, name, label, limit))]
