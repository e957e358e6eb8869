"""Blocks of Parsl as runs of BEE: ``HighThroughputExecutor(provider=BeeProvider(image=...))``."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, Mapping, Optional, Sequence

import bee
from parsl.jobs.states import JobState, JobStatus
from parsl.launchers import SimpleLauncher
from parsl.launchers.base import Launcher
from parsl.providers.base import ExecutionProvider
from parsl.providers.errors import SubmitException
from parsl.utils import RepresentationMixin

STATES = {
    "queued": JobState.PENDING,
    "running": JobState.RUNNING,
    "suspended": JobState.HELD,
    "set aside": JobState.HELD,
    "succeeded": JobState.COMPLETED,
    "failed": JobState.FAILED,
    "stopped": JobState.CANCELLED,
}


class BeeProvider(ExecutionProvider, RepresentationMixin):
    """Submits each block of workers as one run.

    ``image`` has Parsl in the version of this process, or ``mounts`` (as in a Beefile) have
    it. The workers connect to this machine, at the executor's ``address``. ``walltime`` is
    the `time` of a run, such as "2h". ``sites`` are names from the sites file, by default
    all. ``keys`` are further keys of a Beefile, and ``client`` another program bee.
    """

    def __init__(
        self,
        image: str,
        *,
        sites: Optional[Sequence[str]] = None,
        walltime: Optional[str] = None,
        nodes_per_block: int = 1,
        cores_per_node: Optional[int] = None,
        mem_per_node: Optional[float] = None,
        init_blocks: int = 1,
        min_blocks: int = 0,
        max_blocks: int = 1,
        parallelism: float = 1,
        worker_init: str = "",
        launcher: Optional[Launcher] = None,
        mounts: Sequence[Mapping[str, Any]] = (),
        keys: Optional[Mapping[str, Any]] = None,
        client: Optional[bee.Bee] = None,
    ) -> None:
        self.image = image
        self.sites = sites
        self.walltime = walltime
        self.nodes_per_block = nodes_per_block
        self.cores_per_node = cores_per_node
        self.mem_per_node = mem_per_node
        self.init_blocks = init_blocks
        self.min_blocks = min_blocks
        self.max_blocks = max_blocks
        self.parallelism = parallelism
        self.worker_init = worker_init
        self.launcher = launcher or SimpleLauncher()
        self.mounts = mounts
        self.keys = keys
        self.client = client or bee.Bee()
        self.script_dir: Optional[str] = None
        self.resources: Dict[object, Any] = {}
        self._label = uuid.uuid4().hex  # of the runs of this provider

    @property
    def label(self) -> str:
        return "bee"

    @property
    def status_polling_interval(self) -> int:
        return 5

    def submit(self, command: str, tasks_per_node: int, job_name: str = "parsl.auto") -> object:
        env: Dict[str, str] = {}
        keys: Dict[str, Any] = dict(self.keys or {})
        if self.cores_per_node:
            keys["cores"], env["PARSL_CORES"] = self.cores_per_node, str(self.cores_per_node)
        if self.mem_per_node:
            keys["memory"], env["PARSL_MEMORY_GB"] = f"{self.mem_per_node:g}G", f"{self.mem_per_node:g}"
        if self.walltime:
            keys["time"] = self.walltime
        launched = self.launcher(command, tasks_per_node, self.nodes_per_block)
        job = {
            "name": job_name,
            "labels": {"parsl": self._label},
            "image": self.image,
            "nodes": self.nodes_per_block,
            "entrypoint": [],
            "run": ["sh", "-c", f"{self.worker_init}\n{launched}"],
            "mounts": list(self.mounts),
            "env": env,
            **keys,
        }
        try:
            run = self.client.run(job, sites=self.sites, trust=True)
        except bee.BeeError as e:
            raise SubmitException(job_name, str(e)) from e
        self.resources[run.id] = {"job_id": run.id}
        return run.id

    def status(self, job_ids: Sequence[object]) -> List[JobStatus]:
        try:
            runs = {run.id: run for run in self.client.runs(all=True, label=f"parsl={self._label}")}
        except bee.BeeError as e:
            return [JobStatus(JobState.UNKNOWN, str(e)) for _ in job_ids]
        return [_status(runs.get(str(job))) for job in job_ids]

    def cancel(self, job_ids: Sequence[object]) -> List[bool]:
        return [self._stop(str(job)) for job in job_ids]

    def _stop(self, run: str) -> bool:
        try:
            self.client.get(run).stop()
        except bee.BeeError:
            return False
        return True


def _status(run: Optional[bee.Run]) -> JobStatus:
    if run is None:
        return JobStatus(JobState.MISSING, "its run was removed")
    state = STATES.get(run.state, JobState.UNKNOWN)
    if run.state == "failed" and isinstance(run.error, bee.LostError):
        state = JobState.TIMEOUT  # the slot was over: no reason to submit no more
    return JobStatus(state, run.why or None, run.exit_code)
