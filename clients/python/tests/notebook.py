"""Runs a notebook in a kernel of Jupyter, which has to be installed (nbclient, ipykernel), and pandas."""

import nbclient
import nbformat

CELLS = [
    "import bee, os, signal, threading, time\n"
    "run = bee.run('you/app:1', 'echo begun; sleep 1000')\n"
    "run",
    # The kernel's own way to interrupt a cell is this signal.
    "while 'begun' not in run.logs(): time.sleep(0.1)\n"
    "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
    "try:\n"
    "    run.wait()\n"
    "except KeyboardInterrupt:\n"
    "    print('interrupted', run.reload().state)",
    "_ = bee.get(run.id).stop()\n"
    "[t.join() for t in threading.enumerate() if t.name == 'bee ' + run.id]\n"
    "print(run.state)",
    "table = bee.array('you/app:1', 'app ${case.n}', cases={'n': [1, 2]}, metrics={'steps': r'steps (\\d+)'}).wait().dataframe()\n"
    "print(table['metric.steps'].sum(), table.created.dt.tz, list(table.state))",
    "print((await (await bee.aio.run('you/app:1', 'app 1')).wait()).state)",
]

notebook = nbformat.v4.new_notebook()
notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
texts = ["".join(o.get("text", "") for o in cell.outputs) for cell in notebook.cells[1:]]
assert texts == ["interrupted running\n", "stopped\n", "3 UTC ['succeeded', 'succeeded']\n", "succeeded\n"], texts
shown = notebook.cells[0].outputs[0]["data"]["text/html"]
assert "stopped" in shown and "running" not in shown, shown
