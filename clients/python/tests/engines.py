"""Runs one MPI job by bee itself and by workflow engines, which have to be installed.

The jobs of the engines are those of docs/how-to/workflow-engines.md. The working directory
has pi.py, and bee an image for it, you/app:1. Cancel and errors of each are tried, and a
restart of Snakemake.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bee
import psij
from bee_psij import BeeConfig

IMAGE = "you/app:1"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "workflow-engines.md"
SNAKEFILE, PARSL, PSIJ = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
MORE_RULES = """
rule slow:
    output: "slow.txt"
    shell: "until [ -e go ]; do sleep 0.1; done; echo slow > {output}"
rule wrong:
    output: "wrong.txt"
    shell: "echo the reason >&2; exit 3"
"""
# What the adapter of a portal does for PSI/J, each in a process of its own that ends at once.
PORTAL = """
import json, sys
from psij import Job, JobExecutor
from psij.serialize import JSONSerializer
what, given = sys.argv[1:]
executor = JobExecutor.get_instance("bee")
job = Job()
job._native_id = given
if what == "submit":
    job = Job(JSONSerializer().loads(given))
    executor.submit(job)
    print(json.dumps(job.native_id))
elif what == "cancel":
    executor.cancel(job)
elif what == "info":
    found = executor.info([job]) if given else executor.info()
    for job in found:
        info = job.current_info
        times = [t.strftime("%Y-%m-%d %H:%M:%S") for t in (info.submission_time, info.dispatch_time)]
        limit = job.spec.attributes.duration.total_seconds()
        spec = JSONSerializer()._from_spec(job.spec)
        spec.update(spec.pop("attributes"))
        spec.update(spec.pop("resources"))
        fields = {"state": job._status.state.name, "native_id": job.native_id, "times": times, "limit": limit}
        print(json.dumps({**spec, **fields, **{k: getattr(info, k) for k in ("wall_time", "cpu_time", "resourcelist", "owner", "submit_host")}}))
"""
FLAGS = ("--executor", "bee", "--bee-image", IMAGE, "--jobs", "2", "--seconds-between-status-checks", "1", "--latency-wait", "1")


def eventually(ask, within=60.0):
    end = time.monotonic() + within
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError("not within %g s" % within)
        time.sleep(0.1)


def newest(name):
    return next(iter(bee.runs(all=True, name=name)), None)


def snakemake(*arguments):
    command = [sys.executable, "-m", "snakemake", *FLAGS, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(process):
    text = process.communicate(timeout=300)[0]
    return process.returncode, text


def started(rule):
    """Snakemake with a job that computes, and the run of it."""
    process = snakemake(rule)
    for line in process.stdout:
        found = re.search(r"is run (\w+) of bee", line)
        if found:
            eventually(lambda: bee.get(found[1]).state == "running")
            return process, found[1]
    raise AssertionError(process.wait())


def by_bee():
    keys = {"nodes": 2, "ranks_per_node": 1, "cores": 1}
    bee.run(IMAGE, "mpirun -n 2 python3 pi.py", inputs={"from": "pi.py", "to": "/work/"}, outputs="pi.txt", **keys).wait()
    return open("pi.txt").read()


def by_snakemake():
    Path("Snakefile").write_text(SNAKEFILE + MORE_RULES)
    code, text = finished(snakemake("-k", "pi", "wrong"))
    assert code != 0 and "the reason" in text and newest("wrong").exit_code == 3, text
    beefile = subprocess.run(["bee", "show", "--beefile", newest("pi").id], capture_output=True, text=True, check=True).stdout
    job = json.loads(beefile)
    assert (job["nodes"], job["cores"], job["memory"], job["time"]) == (2, 1, "500M", "10m"), job
    assert open("results/pi.log").read().startswith("pi = "), open("results/pi.log").read()

    killed, run = started("slow")
    killed.kill()
    finished(killed)
    assert finished(snakemake("--unlock"))[0] == 0
    again, same = started("slow")
    assert same == run, (same, run)
    subprocess.run(["bee", "exec", run, "touch", "/work/go"], check=True)
    code, text = finished(again)
    assert code == 0 and open("slow.txt").read() == "slow\n", text

    os.remove("slow.txt")
    cancelled, run = started("slow")
    cancelled.send_signal(signal.SIGINT)
    code, text = finished(cancelled)
    assert code != 0 and bee.get(run).state == "stopped", (bee.get(run), text)
    return open("results/pi.txt").read()


def portal(home, what, given):
    """Ask the executor in a process of its own, and return what it prints, line by line."""
    done = subprocess.run([sys.executable, "-c", PORTAL, what, given], env={**os.environ, "HOME": home}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] in '"{']  # PSI/J 0.9.11 prints names of keys, too


def by_portal():
    """A script of the home directory, which is another one by the time the job runs."""
    with tempfile.TemporaryDirectory() as home:
        file = Path(home, "run.sh")
        file.write_text('#!/bin/sh\necho "$1, \'quoted\' in $PWD"\nexit 7\n')
        file.chmod(0o755)
        here = os.getcwd()
        attributes = {"custom_attributes": {"bee.image": IMAGE, "bee.keys": '{"cores": 1}'}}
        spec = {"executable": str(file), "arguments": ["x"], "name": "portal", "directory": here, "stdout_path": f"{here}/portal.log", "attributes": attributes}
        ids = portal(home, "submit", json.dumps({**spec, "resources": {"__version": 1, "cpu_cores_per_process": 2}}))
        file.write_text("#!/bin/sh\nexec sleep 1000\n")
        slow = portal(home, "submit", json.dumps(spec))[0]
        bee.get(ids[0]).wait(check=False)
        assert open("portal.log").read() == f"x, 'quoted' in {here}\n", open("portal.log").read()

        (info,) = portal(home, "info", ids[0])
        assert (info["state"], info["native_id"], info["name"], info["process_count"]) == ("FAILED", ids[0], "portal", 1), info
        assert info["owner"] == bee.get(ids[0]).record["user"] and len(info["resourcelist"]) == 1 and info["cpu_time"] is not None, info
        assert [i["native_id"] for i in portal(home, "info", "")] == [slow]
        assert portal(home, "info", "nnnnnnnn") == []
        portal(home, "cancel", slow)
        assert portal(home, "info", slow)[0]["state"] == "CANCELED"
    executor = psij.JobExecutor.get_instance("bee")
    assert executor.info(owner="another") == []
    try:
        executor.submit(psij.Job(psij.JobSpec("true", attributes=psij.JobAttributes(custom_attributes={"bee.image": IMAGE, "bee.keys": "{"}))))
    except psij.InvalidJobException:
        pass
    else:
        raise AssertionError("keys that are no JSON were accepted")


def script(text):
    """Run a program in this working directory, and return what it prints."""
    Path("script.py").write_text(text)
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}  # of an environment that is activated
    process = subprocess.Popen([sys.executable, "script.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    code, printed = finished(process)
    assert code == 0, printed
    return printed


def by_parsl():
    script(PARSL)
    run = newest("parsl.HighThroughputExecutor.block-0")
    eventually(lambda: run.reload().over)
    return open("pi.txt").read()


def by_psij():
    assert script(PSIJ) == "COMPLETED\n"
    assert open("psij.log").read() == open("pi.txt").read()

    executor = psij.JobExecutor.get_instance("bee", config=BeeConfig(image=IMAGE))
    wrong = psij.Job(psij.JobSpec("sh", ["-c", "exit 7"]))
    executor.submit(wrong)
    status = wrong.wait()
    assert status.state == psij.JobState.FAILED and status.exit_code == 7, status

    slow = psij.Job(psij.JobSpec("sleep", ["1000"]))
    executor.submit(slow)
    again = psij.Job()
    executor.attach(again, slow.native_id)
    named = psij.Job()
    executor.attach(named, "sleep")
    slow.wait(target_states=[psij.JobState.ACTIVE])
    slow.cancel()
    assert slow.wait().state == psij.JobState.CANCELED and again.wait().state == psij.JobState.CANCELED
    assert named.wait().state == psij.JobState.CANCELED

    try:
        executor.submit(psij.Job(psij.JobSpec("true", launcher="srun")))
    except psij.InvalidJobException:
        pass
    else:
        raise AssertionError("a launcher of the host was accepted")
    by_portal()
    return open("pi.txt").read()


results = {}
top = Path.cwd()
for way in (by_bee, by_snakemake, by_parsl, by_psij):
    began = time.monotonic()
    (top / way.__name__).mkdir()
    os.chdir(top / way.__name__)
    Path("pi.py").write_bytes((top / "pi.py").read_bytes())
    results[way.__name__] = way().split(" on ")[0]  # the hosts are others
    print(f"{way.__name__}: {time.monotonic() - began:.1f} s", flush=True)
assert len(set(results.values())) == 1 and results["by_bee"].startswith("pi = 3.14159"), results
