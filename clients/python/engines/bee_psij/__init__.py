"""Jobs of PSI/J as runs of BEE: ``psij.JobExecutor.get_instance("bee", config=BeeConfig(image=...))``."""

from __future__ import annotations

import json
import shlex
import socket
import threading
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import bee
from psij import InvalidJobException, Job, JobAttributes, JobExecutor, JobExecutorConfig, JobSpec, JobState, JobStatus, ResourceSpecV1, SubmitException

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


@dataclass
class RunInfo:
    """What is known of a run beside its state, by the names that PSI/J has proposed for it.

    ``dispatch_time`` is that of the first attempt; of a run without one, that of submission.
    """

    wall_time: int
    cpu_time: Optional[int]
    submission_time: datetime
    dispatch_time: datetime
    resourcelist: List[Dict[str, Union[str, int]]]
    owner: str
    submit_host: str


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
        if job.native_id is None:
            raise SubmitException("the job was not submitted")
        try:
            self._client.get(str(job.native_id)).stop()
        except bee.BeeError as e:
            raise SubmitException(str(e), exception=e) from e

    def list(self) -> List[str]:
        return [run.id for run in self._client.runs()]

    def info(self, jobs: Optional[Sequence[Job]] = None, owner: Optional[str] = None) -> List[Job]:
        """Return jobs with the state of their runs, and the rest as ``job.current_info``.

        ``jobs`` need only their native ids; those without a run are left out. Without them, it
        returns all runs that are not over. They are this user's: another ``owner`` has none.
        """
        found = []
        for job in jobs if jobs is not None else ():
            try:
                found.append(self._client.get(str(job.native_id)))
            except bee.NotFoundError:
                pass
        if jobs is None:
            found = self._client.runs()
        return [_job_of(run) for run in found if owner is None or run.record.get("user") in owner.split(",")]

    def _beefile(self, job: Job, spec: JobSpec) -> Dict[str, Any]:
        custom = (spec.attributes.custom_attributes if spec.attributes else None) or {}
        image = custom.get("bee.image", self._settings.image)
        if not image:
            raise InvalidJobException('the job has no image: set its custom attribute "bee.image", or BeeConfig(image=...)')
        resources = spec.resources
        assert isinstance(resources, ResourceSpecV1)
        keys: Dict[str, Any] = {
            "name": spec.name or "psij",
            "labels": {"psij": self._label, "psij-processes": str(resources.computed_process_count)},
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
        more = custom.get("bee.keys") or {}
        if isinstance(more, str):  # of a program whose attributes are texts
            try:
                more = json.loads(more)
            except ValueError as e:
                raise InvalidJobException(f'the custom attribute "bee.keys" is no JSON: {e}') from e
        return {**keys, **(self._settings.keys or {}), **more}

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


def _job_of(run: bee.Run) -> Job:
    """Return a job by the record of a run."""
    attempts = run.attempts
    began = attempts[0].started if attempts else None
    last = attempts[-1].record if attempts else {}
    nodes = [n for a in attempts for n in a.record.get("nodes") or ()]
    used = [n.get("user_seconds", 0) + n.get("system_seconds", 0) for n in nodes]
    processes = run.labels.get("psij-processes", "")
    job = Job(
        JobSpec(
            name=run.name,
            attributes=JobAttributes(duration=timedelta(seconds=last.get("slot_seconds") or 0)),
            resources=ResourceSpecV1(process_count=int(processes) if processes.isdigit() and int(processes) > 0 else run.record["nodes"]),
        )
    )
    job._native_id = run.id
    job._status = JobStatus(STATES[run.state], message=run.why or None, exit_code=run.exit_code)
    until = run.ended or datetime.now(timezone.utc)
    job.current_info = RunInfo(  # type: ignore[attr-defined]
        wall_time=int((until - began).total_seconds()) if began else 0,
        cpu_time=int(sum(used)) if used else None,
        submission_time=run.created,
        dispatch_time=began or run.created,
        resourcelist=[{"name": n["host"], "procs": n.get("cores", 0)} for n in last.get("nodes") or ()] or [{"name": host} for host in last.get("hosts") or ()],
        owner=run.record.get("user", ""),
        submit_host=socket.gethostname(),
    )
    return job


LONGEST_SCRIPT = 64 << 10  # bytes; the kernel takes no variable of more than 128 KiB


def _home_script(spec: JobSpec) -> Optional[str]:
    """Return the text of a script below the home directory, which no image has; None: it is none."""
    path = Path(str(spec.executable))
    if not path.is_absolute() or Path.home() not in path.parents or spec.directory and Path(str(spec.directory)) in path.parents:
        return None
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_SCRIPT + 1)
    except OSError:
        return None
    if not raw.startswith(b"#!"):
        return None
    if len(raw) > LONGEST_SCRIPT:
        raise InvalidJobException(f"the script {path} has more than {LONGEST_SCRIPT} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as e:
        raise InvalidJobException(f"the script {path} is no text: {e}") from e


def _in_directory(spec: JobSpec, path: Optional[Path]) -> bool:
    """Report whether a stream is a file of the directory that the containers have."""
    return bool(path and spec.directory and Path(str(spec.directory)).is_absolute() and Path(str(spec.directory)) in Path(str(path)).parents)


def _script(spec: JobSpec, resources: ResourceSpecV1) -> str:
    """The command of a job, with what precedes and follows it, by its launcher."""
    assert spec.executable is not None
    script = _home_script(spec)
    command = shlex.join(["/tmp/psij-script" if script else str(spec.executable), *(spec.arguments or ())])
    if spec.launcher == "mpirun" and script:
        raise InvalidJobException(f"the launcher mpirun would start {spec.executable} on hosts that do not have it: start the ranks in the script")
    if spec.launcher == "mpirun":
        command = f"mpirun -n {resources.computed_process_count} {command}"
    elif spec.launcher not in (None, "single"):
        raise InvalidJobException(f'launcher {spec.launcher!r} starts processes of the host: use "mpirun", the image\'s own, or "single"')
    if spec.stdin_path:
        command += f" <{shlex.quote(str(spec.stdin_path))}"
    for stream, path in ((">", spec.stdout_path), ("2>", spec.stderr_path)):
        if _in_directory(spec, path):
            command += f" {stream}{shlex.quote(str(path))}"
    before = f"printf %s {shlex.quote(script)} >/tmp/psij-script && chmod +x /tmp/psij-script || exit 126\n" if script else ""
    before += f". {shlex.quote(str(spec.pre_launch))}\n" if spec.pre_launch else ""
    after = f"\ncode=$?\n. {shlex.quote(str(spec.post_launch))}\nexit $code" if spec.post_launch else ""
    return before + command + after


def _write_streams(job: Job, run: bee.Run) -> None:
    """Write what the job has printed to the files that it names, on this machine."""
    if job.spec is None:  # it was attached
        return
    paths = {"stdout": job.spec.stdout_path, "stderr": job.spec.stderr_path}
    paths = {stream: path for stream, path in paths.items() if not _in_directory(job.spec, path)}  # the job has written the others
    if not any(paths.values()):
        return
    pieces = list(run.pieces())
    for stream, path in paths.items():
        if path:
            with open(path, "wb") as file:
                file.writelines(p.data for p in pieces if p.stream == stream)
