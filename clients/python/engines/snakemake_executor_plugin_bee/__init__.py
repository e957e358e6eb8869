"""Run the rules of a Snakemake workflow as runs of BEE: ``snakemake --executor bee``.

A job becomes a Beefile: the rule's container, its shell command, its input and output files,
and threads, mem_mb, runtime, nodes, tasks and mpi of its resources. No file system is shared
with the sites, and the images need no Snakemake.
"""

import os
import shlex
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, AsyncGenerator, Dict, List, Optional

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

import bee

VOLUME = "/work"

# Snakemake runs shell commands with bash in its strict mode; an image may have sh alone.
SHELL = 'if command -v bash >/dev/null; then exec bash -euo pipefail -c "$1"; else exec sh -eu -c "$1"; fi'


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    image: Optional[str] = field(default=None, metadata={"help": "Image of rules without `container:`"})
    sites: Optional[str] = field(default=None, metadata={"help": "Sites of BEE, separated by commas; default: those of the sites file"})
    program: Optional[str] = field(default=None, metadata={"help": "Path of the program bee"})


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,  # inputs and outputs are beside the workflow; bee copies them
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_default_resources_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=1,
)


class Executor(RemoteExecutor):
    """Submits jobs to BEE, and asks for the states of all with one call."""

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings or ExecutorSettings()
        self.client = bee.Bee(program=settings.program) if settings.program else bee.Bee()
        self.image: Optional[str] = settings.image
        self.sites = settings.sites.split(",") if settings.sites else None
        self.label = uuid.uuid4().hex  # of the runs that this process has submitted

    def run_job(self, job: JobExecutorInterface) -> None:
        before = self.dag.incomplete_external_jobid(job)
        try:
            run = self._found(before) if before else None
            if run is None:
                run = self.client.run(self._beefile(job), sites=self.sites, trust=True)
        except bee.BeeError as e:
            self.report_job_error(SubmittedJobInfo(job), msg=f"{e}\n")
            return
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=run.id))
        self.logger.info(f"Job {job.jobid} is run {run.id} of bee.")

    def _found(self, run: str) -> Optional[bee.Run]:
        """The run of an earlier Snakemake that was ended, unless it has failed."""
        try:
            found = self.client.get(run)
        except bee.NotFoundError:
            return None
        return found if not found.over or found.state == "succeeded" else None

    def _beefile(self, job: JobExecutorInterface) -> Dict[str, Any]:
        if job.is_group():
            raise bee.UnsupportedError(
                "a group of jobs cannot be one run", remedy="Leave out `group:`; many short jobs of one kind are an array of BEE."
            )
        if not job.is_shell:
            raise bee.UnsupportedError(
                f"rule {job.name} has no `shell:`", remedy="Write its command as `shell:`, or name it in `localrules:` to run it here."
            )
        if job.benchmark:
            raise bee.UnsupportedError(f"rule {job.name} has `benchmark:`", remedy="Leave it out: `bee show` has the times of each run.")
        image = (job.container_img_url or self.image or "").removeprefix("docker://")
        if not image:
            raise bee.InvalidError(
                f"rule {job.name} has no image", remedy='Give it `container: "docker://you/app:1"`, or snakemake `--bee-image you/app:1`.'
            )
        outputs = [_relative(job, o) for o in job.output]
        made = sorted({os.path.dirname(path) for path in (*outputs, *job.log)} - {""})
        command = f"mkdir -p -- {shlex.join(made)}\n{job.shellcmd}" if made else job.shellcmd
        return {
            "name": job.name,
            "labels": {"snakemake": self.label},
            "image": image,
            "workdir": VOLUME,
            "run": ["sh", "-c", SHELL, "sh", command],
            "entrypoint": [],
            "inputs": _inputs(job),
            "outputs": [
                *(_output(path, optional="touch" in getattr(o, "flags", {})) for path, o in zip(outputs, job.output)),
                *(_output(_relative(job, path), optional=True) for path in job.log),
            ],
            "secrets": {name: {"env": name} for name in self.envvars()},
            **_resources(job),
        }

    async def check_active_jobs(self, active_jobs: List[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        if not active_jobs:
            return
        async with self.status_rate_limiter:
            records = self._records()
        for info in active_jobs:
            try:
                run = records.get(info.external_jobid) or self.client.get(info.external_jobid)  # that of an earlier Snakemake
                if run.state == "succeeded":
                    _touch(info.job)
                    self.report_job_success(info)
                elif run.state not in ("queued", "running"):
                    self.report_job_error(info, msg=_why(run.reload()))
                else:
                    yield info
            except bee.NotFoundError as e:
                self.report_job_error(info, msg=f"{e}\n")
            except bee.BeeError as e:  # asked again
                self.logger.warning(f"ask for run {info.external_jobid} of bee: {e}")
                yield info

    def _records(self) -> Dict[str, bee.Run]:
        """The runs of this process by their ids; none, if they cannot be asked for now."""
        try:
            return {run.id: run for run in self.client.runs(all=True, label=f"snakemake={self.label}")}
        except bee.BeeError:
            return {}

    def cancel_jobs(self, active_jobs: List[SubmittedJobInfo]) -> None:
        def stop(info: SubmittedJobInfo) -> None:
            try:
                self.client.get(info.external_jobid).stop(without_outputs=True)
            except bee.BeeError as e:
                self.logger.error(f"stop run {info.external_jobid} of bee: {e}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(stop, active_jobs))


def _why(run: bee.Run) -> str:
    """Why a run has not succeeded, with the end of what it printed."""
    last = "".join(run.logs().splitlines(keepends=True)[-10:])
    return f"{run.error}\n{last}"


def _relative(job: JobExecutorInterface, path: str) -> str:
    """A path below the working directory, which becomes the run's volume."""
    found = os.path.relpath(path)
    if found.startswith(".."):
        raise bee.UnsupportedError(
            f"rule {job.name}: {path} is outside of the working directory", remedy="Use paths below the directory in which Snakemake runs."
        )
    return found


def _inputs(job: JobExecutorInterface) -> List[Dict[str, str]]:
    paths = sorted({_relative(job, path) for path in job.input})
    within = [d + "/" for d in paths if os.path.isdir(d)]
    return [{"from": p, "to": f"{VOLUME}/{p}"} for p in paths if not p.startswith(tuple(within))]


def _output(path: str, optional: bool) -> Dict[str, Any]:
    return {"from": f"{VOLUME}/{path}", "to": os.path.dirname(path) or ".", "replace": True, "optional": optional}


def _touch(job: JobExecutorInterface) -> None:
    """Outputs get the time of this machine: clocks of sites may be behind those of the inputs."""
    for path in (*job.output, *job.log):
        if os.path.exists(path):
            os.utime(path)


def _resources(job: JobExecutorInterface) -> Dict[str, Any]:
    """Keys of a Beefile for the resources of a rule, which have the meanings that they have for Slurm."""
    given = job.resources
    if given.get("mpi") == "srun":
        raise bee.UnsupportedError(f"rule {job.name} starts MPI by srun", remedy="Set its resource `mpi` to the mpirun or mpiexec of the image.")
    nodes, tasks = int(given.get("nodes", 1)), int(given.get("tasks", 1))
    ranks = int(given.get("tasks_per_node", -(-tasks // nodes)))
    cores = ranks * int(given.get("cpus_per_task", job.threads))
    keys: Dict[str, Any] = {"nodes": nodes, "cores": cores}
    if "mpi" in given:
        keys["ranks_per_node"] = ranks
    memory = given.get("mem_mb") or int(given.get("mem_mb_per_cpu", 0)) * cores
    if memory:
        keys["memory"] = f"{int(memory)}M"
    if given.get("runtime"):
        keys["time"] = f"{int(given['runtime'])}m"
    gpus = given.get("gpu") or given.get("gpus")
    if gpus:
        keys["gpus"] = int(gpus)
    return keys
