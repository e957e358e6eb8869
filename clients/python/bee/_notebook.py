"""Runs in notebooks. What a job or a site has named is only displayed."""

from __future__ import annotations

import html as escape
import importlib
import threading
import unicodedata
from typing import TYPE_CHECKING, Any, List, Tuple

from ._errors import BeeError
from ._records import RunRecord

if TYPE_CHECKING:
    from ._run import Run

SIGNS = {"queued": "…", "running": "▶", "suspended": "‖", "set aside": "‖", "succeeded": "✔", "failed": "✘", "stopped": "■"}

# Texts of jobs have no end of their own.
LONGEST = 2000

# Seconds between two looks at a run that is shown: as short as that while it changes.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


def plain(text: str) -> str:
    """Return a text as HTML, in which no character does more than to show."""
    shown = "".join(c if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else f"\\u{ord(c):04x}" for c in text[:LONGEST])
    return escape.escape(shown + ("…" if len(text) > LONGEST else ""))


def rows(run: RunRecord) -> List[Tuple[str, str]]:
    """Return what is shown of a run, by name."""
    found = [("run", f"{run.id} {run.name}"), ("state", f"{SIGNS.get(run.state, '?')} {run.state}")]
    attempts = run.attempts
    if attempts:
        last = attempts[-1]
        found.append(("attempt", f"{last.number} on site {last.site}: {', '.join(last.hosts)}"))
    for name, moment in (("created", run.created), ("ended", run.ended)):
        if moment is not None:
            found.append((name, moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")))
    error = run.error
    if error is not None:
        found.append(("reason", error.message))
        if error.remedy:
            found.append(("remedy", error.remedy))
    elif run.why:
        found.append(("waits for", run.why))
    for output in run.outputs:
        more = output.count - len(output.names)
        found.append(("outputs", f"{output.to}: {', '.join(output.names)}" + (f" and {more} more" if more > 0 else "")))
    return found


def html(run: RunRecord) -> str:
    """Return a run as a table."""
    cells = "".join(f'<tr><th style="text-align:left">{plain(name)}</th><td style="text-align:left;white-space:pre-wrap">{plain(text)}</td></tr>' for name, text in rows(run))
    return f"<table>{cells}</table>"


def show(run: Run) -> None:
    """Show a run in a cell, and change what is shown until the run is over."""
    ipython: Any = importlib.import_module("IPython.display")  # only notebooks have it
    handle = ipython.display(ipython.HTML(html(run)), display_id=True)
    if handle is None or run.over:
        return

    def follow() -> None:
        pause, before = SHORTEST_PAUSE, html(run)
        while not run.over:
            stop.wait(pause)
            try:
                now = html(run.reload())
            except BeeError as err:
                handle.update(ipython.HTML(html(run) + f"<p>{plain(str(err))}</p>"))
                return
            pause = SHORTEST_PAUSE if now != before else min(2 * pause, LONGEST_PAUSE)
            if now != before:
                handle.update(ipython.HTML(now))
            before = now

    stop = threading.Event()  # nothing sets it: the thread ends with the run or the kernel
    threading.Thread(target=follow, name=f"bee {run.id}", daemon=True).start()
