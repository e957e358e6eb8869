"""Jobs of PSI/J as runs of BEE: ``psij.JobExecutor.get_instance("bee", config=BeeConfig(image=...))``."""

from __future__ import annotations

import shlex
import threading
import uuid
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

import bee
from psij import InvalidJobException, Job, JobExecutor, JobExecutorConfig, JobSpec, JobState, JobStatus, ResourceSpecV1, SubmitException

STATES = {
    "queued": JobState.QUEUED,
    "running": JobState.ACTIVE,
    "suspended": JobState.QUEUED,
    "set aside": JobState.QUEUED,
    "succeeded": JobState.COMPLETED,
    "failed": JobState.FAILED,
    "stopped": JobState.CANCELED,
}
PERIOD = 1.0  # seconds between two questions for the states of all jobs


@dataclass
class BeeConfig(JobExecutorConfig):
    """``image`` is that of jobs without a custom attribute ``bee.image``. ``sites`` are names
    from the sites file, ``keys`` further keys of a Beefile, and ``client`` another program bee.
    """

    image: Optional[str] = None
    sites: Optional[Sequence[str]] = None
    keys: Optional[Mapping[str, Any]] = None
    client: Optional[bee.Bee] = None


class BeeJobExecutor(JobExecutor):
    """Runs each job in a container, in which its `directory` is mounted from the site."""

    def __init__(self, url: Optional[str] = None, config: Optional[JobExecutorConfig] = None) -> None:
        if url is not None:
            raise ValueError(f"the executor has no URL, not {url!r}: name sites in BeeConfig(sites=[...])")
        super().__init__(url=url, config=config or BeeConfig())
        self._settings = config if isinstance(config, BeeConfig) else BeeConfig()
        self._client = self._settings.client or bee.Bee()
        self._label = uuid.uuid4().hex  # of the runs of this executor
        self._jobs: Dict[str, List[Job]] = {}  # by run; several may be attached to one
        self._lock = threading.Lock()
        self._asking: Optional[threading.Thread] = None

    def submit(self, job: Job) -> None:
        spec = self._check_job(job)
        beefile = self._beefile(job, spec)
        try:
            run = self._client.run(beefile, sites=self._settings.sites, trust=True)
        except (bee.InvalidError, bee.UnsupportedError) as e:
            raise InvalidJobException(str(e)) from e
        except bee.BeeError as e:
            raise SubmitException(str(e), exception=e, transient=True) from e
        self._follow(job, run.id)

    def attach(self, job: Job, native_id: str) -> None:
        if job.status.state != JobState.NEW:
            raise InvalidJobException("the job was submitted already")
        job.executor = self
        self._follow(job, native_id)

    def cancel(self, job: Job) -> None:
        if job.status.final:
            return
        assert job.native_id is not None
        try:
            self._client.get(str(job.native_id)).stop()
        except bee.BeeError as e:
            raise SubmitException(str(e), exception=e) from e

    def list(self) -> List[str]:
        return [run.id for run in self._client.runs()]

    def _beefile(self, job: Job, spec: JobSpec) -> Dict[str, Any]:
        custom = (spec.attributes.custom_attributes if spec.attributes else None) or {}
        image = custom.get("bee.image", self._settings.image)
        if not image:
            raise InvalidJobException('the job has no image: set its custom attribute "bee.image", or BeeConfig(image=...)')
        resources = spec.resources
        assert isinstance(resources, ResourceSpecV1)
        keys: Dict[str, Any] = {
            "name": spec.name or "psij",
            "labels": {"psij": self._label},
            "image": image,
            "nodes": resources.computed_node_count,
            "ranks_per_node": resources.computed_processes_per_node,
            "cores": resources.computed_processes_per_node * (resources.cpu_cores_per_process or 1),
            "entrypoint": [],
            "run": ["sh", "-c", _script(spec, resources)],
            "env": {k: str(v) for k, v in (spec.environment or {}).items()},
        }
        if resources.memory_kb:
            keys["memory"] = f"{-(-resources.memory_kb // 1024 // resources.computed_node_count)}M"
        if resources.gpu_cores_per_process:
            keys["gpus"] = resources.gpu_cores_per_process * resources.computed_processes_per_node
        if spec.attributes and spec.attributes.duration:
            keys["time"] = f"{int(spec.attributes.duration.total_seconds())}s"
        if spec.directory:
            keys["mounts"] = [{"from": str(spec.directory), "to": str(spec.directory), "write": True}]
            keys["workdir"] = str(spec.directory)
        return {**keys, **(self._settings.keys or {}), **custom.get("bee.keys", {})}

    def _follow(self, job: Job, run: str) -> None:
        job._native_id = run
        with self._lock:
            self._jobs.setdefault(run, []).append(job)
            if self._asking is None:
                self._asking = threading.Thread(target=self._ask, name="states of runs of bee", daemon=True)
                self._asking.start()

    def _ask(self) -> None:
        """Ask for the states of all jobs until none is left."""
        pause = threading.Event()
        while True:
            with self._lock:
                names = list(self._jobs)
                if not names:
                    self._asking = None
                    return
            try:
                found = {run.id: run for run in self._client.runs(all=True, label=f"psij={self._label}")}
                for name in names:
                    self._tell(name, found.get(name) or self._client.get(name))  # one that was attached
            except bee.TransientError:
                pass  # asked again
            except (bee.BeeError, OSError) as e:
                self._give_up(str(e))
            pause.wait(PERIOD)

    def _tell(self, name: str, run: bee.Run) -> None:
        """Tell the jobs that follow a run by a name: its id, or what the caller of attach gave."""
        final = STATES[run.state].final
        with self._lock:
            jobs = self._jobs.pop(name) if final else list(self._jobs[name])
        for job in jobs:
            state, message = STATES[run.state], run.why
            if final:
                try:
                    _write_streams(job, run)
                except (bee.BeeError, OSError) as e:
                    state, message = JobState.FAILED, f"write what the job has printed: {e}"
            if state != job.status.state:
                self._set_job_status(job, JobStatus(state, message=message or None, exit_code=run.exit_code, metadata={"nativeId": run.id}))

    def _give_up(self, why: str) -> None:
        with self._lock:
            jobs, self._jobs = sum(self._jobs.values(), []), {}
        for job in jobs:
            self._set_job_status(job, JobStatus(JobState.FAILED, message=why))


def _script(spec: JobSpec, resources: ResourceSpecV1) -> str:
    """The command of a job, with what precedes and follows it, by its launcher."""
    assert spec.executable is not None
    command = shlex.join([spec.executable, *(spec.arguments or ())])
    if spec.launcher == "mpirun":
        command = f"mpirun -n {resources.computed_process_count} {command}"
    elif spec.launcher not in (None, "single"):
        raise InvalidJobException(f'launcher {spec.launcher!r} starts processes of the host: use "mpirun", the image\'s own, or "single"')
    if spec.stdin_path:
        command += f" <{shlex.quote(str(spec.stdin_path))}"
    before = f". {shlex.quote(str(spec.pre_launch))}\n" if spec.pre_launch else ""
    after = f"\ncode=$?\n. {shlex.quote(str(spec.post_launch))}\nexit $code" if spec.post_launch else ""
    return before + command + after


def _write_streams(job: Job, run: bee.Run) -> None:
    """Write what the job has printed to the files that it names, on this machine."""
    if job.spec is None:  # it was attached
        return
    paths = {"stdout": job.spec.stdout_path, "stderr": job.spec.stderr_path}
    if not any(paths.values()):
        return
    pieces = list(run.pieces())
    for stream, path in paths.items():
        if path:
            with open(path, "wb") as file:
                file.writelines(p.data for p in pieces if p.stream == stream)
