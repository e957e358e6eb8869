"""Calls of bee that sync and async twins share: arguments in, records out."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import BeeError, InvalidError, WaitTimeoutError, error_of_run
from ._program import Answer, Call

Record = Dict[str, Any]
Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Command = Union[str, Sequence[str], None]

# Flags of `bee run` for keys of a Beefile that is a file.
FLAGS = {
    "name": "--name",
    "nodes": "--nodes",
    "cores": "--cores",
    "memory": "--memory",
    "time": "--time",
    "wait": "--wait",
    "workdir": "--workdir",
    "gpus": "--gpus",
    "image": "--image",
}

LARGEST_BEEFILE = 1 << 20

LOCAL_IMAGES = ("oci", "docker-archive", "oci-archive", "sif")


def is_local_image(word: str) -> bool:
    return word.split(":", 1)[0] in LOCAL_IMAGES and ":" in word or word.endswith(".sif") and ":" not in word


def is_image(word: str) -> bool:
    """Whether a word is an image and no Beefile, by the rules of `bee run`."""
    if is_local_image(word):
        return True
    if os.path.exists(word) or word.lower().endswith((".yaml", ".yml", ".json")):
        return False
    return word != "" and not word.startswith((".", "/", "~"))


def name_of_image(word: str) -> str:
    """The name of a run of an image, as `bee run` makes it."""
    if is_local_image(word):
        file = word.split(":", 1)[-1].split(":", 1)[0]
        return re.sub(r"(\.(tar|gz|sif))+$", "", os.path.basename(file))
    return re.sub(r"[@:].*$", "", word.rsplit("/", 1)[-1])


def submit_array(
    job: Job, command: Command, sites: Union[str, Sequence[str], None], pull: Optional[str], trust: bool, array: Mapping[str, Any], keys: Mapping[str, Any]
) -> Call[Record]:
    """Submit an array: a Beefile that has one, or a job and its cases."""
    array = {k: v for k, v in array.items() if v is not None}
    if isinstance(array.get("cases"), (str, os.PathLike)):
        array["cases"] = {"file": os.fspath(array["cases"])}
    return submit(job, command, sites, pull, trust, {**keys, "array": array or None})


def submit(job: Job, command: Command, sites: Union[str, Sequence[str], None], pull: Optional[str], trust: bool, keys: Mapping[str, Any]) -> Call[Record]:
    """Submit a run: a Beefile, a mapping with its keys, or an image and a command."""
    arguments = ["run", "-d", "-q", "--json", *_site_flags(sites)]
    keys = {k: v for k, v in keys.items() if v is not None}
    if pull is not None:
        arguments += ["--pull", pull]
    if isinstance(job, Mapping):
        beefile = {**job, **keys}
    elif isinstance(job, str) and is_image(job):
        # All of it is what the caller wrote, as on a command line, but a file of cases.
        if not trust and _cases_in_a_file(keys.get("array")):
            raise InvalidError("another user may have written the file of cases", remedy="Read it, and give trust=True.")
        arguments += ["--image", job]
        beefile = {"name": name_of_image(job), **keys}
        trust = True
    else:
        if command is not None:
            raise InvalidError("a Beefile has its command itself", remedy="Write the command as `run` in the Beefile, or run an image.")
        one = ("--one-job",) if _may_have_several(job) else ()
        return Call((*arguments, *one, *_flags(keys), *(("--trust",) if trust else ()), "--", os.fspath(job)), _checked, finish=True)
    if command is not None:
        beefile["run"] = command if isinstance(command, str) else list(command)
    if trust:
        arguments.append("--trust")
    return Call((*arguments, "-"), _checked, input=_beefile(beefile), finish=True)


def _cases_in_a_file(array: Any) -> bool:
    cases = array.get("cases") if isinstance(array, Mapping) else None
    return isinstance(cases.get("file") if isinstance(cases, Mapping) else cases, (str, os.PathLike))


def _may_have_several(job: Union[str, "os.PathLike[str]"]) -> bool:
    """Whether a Beefile may have several jobs, of which bee is told to submit none.

    Versions of bee that read one job only do not know the flag.
    """
    if not os.path.isfile(job):  # such as a pipe, which can be read once
        return os.path.exists(job)
    try:
        with open(job, "rb") as file:
            text = file.read(LARGEST_BEEFILE)
    except OSError:  # which bee reports
        return False
    return any(mark in text for mark in (b"---", b"..."))


def _beefile(keys: Mapping[str, Any]) -> bytes:
    """A Beefile: JSON is YAML, without escapes of two halves of a character."""
    for key in ("inputs", "outputs", "mounts", "sites"):
        if isinstance(keys.get(key), (str, os.PathLike, Mapping)):
            keys = {**keys, key: [keys[key]]}
    return json.dumps(keys, ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    raise InvalidError(f"{value!r} cannot be in a Beefile", remedy="Use text, numbers, lists and mappings.")


def _flags(keys: Mapping[str, Any]) -> List[str]:
    flags: List[str] = []
    for key, value in keys.items():
        if key == "env":
            for k, v in value.items():
                flags += ["--env", f"{k}={v}"]
        elif key == "labels":
            for k, v in value.items():
                flags += ["--label", f"{k}={v}"]
        elif key in FLAGS:
            flags.append(f"{FLAGS[key]}={value}")
        else:
            raise InvalidError(
                f"{key!r} cannot replace a key of a Beefile that is a file",
                remedy=f"Write it in the file. Only these can: {', '.join(sorted((*FLAGS, 'env', 'labels')))}.",
            )
    return flags


def _site_flags(sites: Union[str, Sequence[str], None]) -> List[str]:
    flags: List[str] = []
    for site in [sites] if isinstance(sites, str) else sites or ():
        flags += ["--site", site]
    return flags


def show(run: str) -> Call[Record]:
    return Call(("show", "--json", "--", run), _checked)


def _succeeded(answer: Answer) -> None:
    if answer.code != 0:
        raise answer.error()


def _checked(answer: Answer) -> Any:
    _succeeded(answer)
    return answer.json()


def runs(everything: bool, name: Optional[str], label: Optional[str], limit: int) -> Call[List[Record]]:
    arguments = ["ps", "--json", f"--limit={limit}"]
    if everything:
        arguments.append("--all")
    if name is not None:
        arguments.append(f"--name={name}")
    if label is not None:
        arguments.append(f"--label={label}")
    return Call(tuple(arguments), _checked)


def wait(run: str, timeout: Optional[float]) -> Call[Record]:
    limit = () if timeout is None else (f"--timeout={max(timeout, 0.001):.3f}s",)

    def read(answer: Answer) -> Record:
        if not answer.out.strip():
            error = answer.error()
            if error.kind == "busy":
                raise WaitTimeoutError(error.message, remedy=error.remedy)
            raise error
        record: Record = answer.json()[0]
        return record

    return Call(("wait", "--json", *limit, "--", run), read)


def wait_for_cases(array: str, timeout: Optional[float]) -> Call[Optional[BeeError]]:
    """Wait for an array; the error is that of its first case without success."""
    limit = () if timeout is None else (f"--timeout={max(timeout, 0.001):.3f}s",)

    def read(answer: Answer) -> Optional[BeeError]:
        if answer.code != 0:
            error = answer.error()
            if error.kind == "busy":
                raise WaitTimeoutError(error.message, remedy=error.remedy)
            if not answer.out.strip():
                raise error
        for record in answer.json():
            if record["state"] != "succeeded":
                return error_of_run(record)
        return None

    return Call(("wait", "--json", *limit, "--", array), read)


def table(array: str) -> Call[str]:
    """The table of the cases of an array, as CSV."""

    def read(answer: Answer) -> str:
        _succeeded(answer)
        return answer.out.decode("utf-8", "replace")

    return Call(("show", "--csv", "--", array), read)


def retry(array: str, sites: Union[str, Sequence[str], None], trust: bool) -> Call[Record]:
    return Call(("retry", "-d", "-q", "--json", *_site_flags(sites), *(("--trust",) if trust else ()), "--", array), _checked, finish=True)


def stop(run: str, without_outputs: bool) -> Call[None]:
    more = ("--without-outputs",) if without_outputs else ()
    return Call(("stop", "--json", *more, "--", run), _succeeded)


def remove(run: str, force: bool) -> Call[None]:
    return Call(("rm", "--json", *(("--force",) if force else ()), "--", run), _succeeded, finish=True)


def asked(command: str, run: str, sites: Union[str, Sequence[str], None] = None) -> Call[Record]:
    """Ask for a checkpoint, a move or to continue."""
    return Call((command, "--json", *_site_flags(sites), "--", run), _checked, finish=True)


def events(run: str, follow: bool) -> Tuple[str, ...]:
    return ("events", *(("--follow",) if follow else ()), "--", run)


def logs(run: str, follow: bool) -> Tuple[str, ...]:
    return ("logs", "--json", *(("--follow",) if follow else ()), "--", run)
