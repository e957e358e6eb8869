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
