"""Tests of the client with the real program bee, whose image you/app:1 is in its cache."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
from pathlib import Path

import bee

APP = "you/app:1"


def until(check, seconds=60.0):
    """Poll until check returns something true, and return it."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not so within {seconds} s")
        time.sleep(0.02)


class InDirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.dir = Path(directory.name).resolve()
        os.chdir(self.dir)


class Runs(InDirectory):
    def test_outputs(self):
        run = bee.run(APP, "app 100; app 100 >&2", nodes=2, outputs="result.txt", env={"A": 1}, labels={"project": "cfd"})
        self.assertIs(run.wait(), run)
        self.assertEqual((run.state, run.exit_code, run.over, run.error), ("succeeded", 0, True, None))
        self.assertEqual(run.outputs, [bee.Output(str(self.dir), 1, ("result.txt",))])
        self.assertEqual(run.outputs[0].paths[0].read_text(), "result 100\n")
        self.assertEqual((run.name, run.labels, run.record["env"]), ("app", {"project": "cfd"}, {"A": "1"}))
        self.assertEqual(len(run.attempts[0].hosts), 2)
        self.assertLessEqual(run.created, run.attempts[0].started)
        self.assertEqual(run.logs(), "steps 100\nsteps 100\n")
        self.assertEqual({p.stream for p in run.pieces()}, {"stdout", "stderr"})
        events = list(run.events(follow=True))
        self.assertEqual((events[-1].kind, events[-1].fields["state"]), ("attempt_state", "closed"))
        self.assertEqual([e.number for e in events], sorted(e.number for e in events))
        self.assertIn(run.id, [r.id for r in bee.runs(all=True, label="project=cfd")])
        run.remove()
        with self.assertRaises(bee.NotFoundError):
            run.reload()

    def test_bytes_that_are_not_text(self):
        run = bee.run(APP, r"printf 'a\377\342\202\254'").wait()
        self.assertEqual(b"".join(p.data for p in run.pieces()), b"a\xff\xe2\x82\xac")

    def test_characters_of_jobs_arrive(self):
        word = "ä€😀 \"'\\ #: {} ${HOME} \t"
        run = bee.run(APP, ["echo", word], labels={"of": "😀"}).wait()
        self.assertEqual((run.logs(), run.labels), (word + "\n", {"of": "😀"}))

    def test_beefiles(self):
        Path("job.yaml").write_text(f"image: {APP}\nrun: echo $A\noutputs: [{{from: none, to: ./out}}]\n")
        run = bee.run("job.yaml", env={"A": "b c"}, name="of-a-file").wait(check=False)
        self.assertEqual((run.name, run.logs()), ("of-a-file", "b c\n"))
        self.assertIn("outputs_missing", [e.kind for e in run.events()])
        with self.assertRaisesRegex(bee.InvalidError, "setup"):
            bee.run(Path("job.yaml"), setup="true")
        with self.assertRaisesRegex(bee.InvalidError, "command"):
            bee.run("job.yaml", "true")
        with self.assertRaises(bee.NotFoundError):
            bee.run("missing.yaml")

    def test_mappings_are_trusted_when_the_caller_says_so(self):
        outside = {"image": APP, "run": "app 1", "outputs": [{"from": "result.txt", "to": str(self.dir.parent / "elsewhere")}]}
        with self.assertRaisesRegex(bee.InvalidError, "nobody has agreed") as caught:
            bee.run(outside)
        self.assertIn("--trust", caught.exception.remedy)
        self.assertEqual(bee.run({"image": APP}, ["echo", "of a mapping"], trust=True).wait().logs(), "of a mapping\n")


class Arrays(InDirectory):
    def test_cases(self):
        array = bee.array(APP, "app ${case.n}; test ${case.n} -ne 2", cases={"n": [1, 2]}, at_once=2, name="study")
        with self.assertRaises(bee.TaskError) as caught:
            array.wait()
        self.assertEqual((caught.exception.exit_code, array.state, array.over, array.states), (1, "failed", True, {"failed": 1, "succeeded": 1}))
        rows = array.rows()
        self.assertEqual([(r["case"], r["case.n"], r["state"], r["exit_code"]) for r in rows], [("1", "1", "succeeded", "0"), ("2", "2", "failed", "1")])
        self.assertEqual([r.logs() for r in array.runs()], ["steps 1\n", "steps 2\n"])
        again = array.retry(trust=True).wait(check=False)
        self.assertEqual((again.name, again.states), ("study", {"failed": 1}))
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}), self.assertRaisesRegex(bee.InvalidError, "pandas"):
            array.dataframe()
        for a in (again, array):
            a.remove()
        with self.assertRaises(bee.NotFoundError):
            array.reload()

    def test_a_file_and_a_limit_of_time(self):
        Path("cases.csv").write_text("n\n3\n4\n")
        array = bee.array(APP, "app ${case.n}; exec sleep 1000", cases=Path("cases.csv"), trust=True)
        with self.assertRaises(bee.WaitTimeoutError):
            array.wait(timeout=0.2)
        self.assertEqual(array.stop().states, {"stopped": 2})

    def test_values_are_numbers_if_nothing_is_lost(self):
        for texts, want in (
            (["1", "-2"], [1, -2]),
            (["1", "0.5"], [1.0, 0.5]),
            (["007", "8"], None),
            (["1.50"], None),
            (["NA", "1"], None),
            (["nan"], None),
            (["inf"], None),
            (["1_0"], None),
            ([""], None),
            (["9007199254740993"], None),
            (["true"], None),
        ):
            got = bee._array.values_of(texts)
            self.assertEqual((got, [type(n) for n in got]), (want or texts, [type(n) for n in want or texts]))

    def test_files_of_cases_need_trust(self):
        Path("cases.csv").write_text("n\n3\n")
        Path("cases.csv").chmod(0o664)
        for cases in ("cases.csv", Path("cases.csv"), {"file": "cases.csv"}, {"file": Path("cases.csv")}):
            with self.assertRaisesRegex(bee.InvalidError, "another user may have written") as caught:
                bee.array(APP, "app ${case.n}", cases=cases)
            self.assertIn("trust=True", caught.exception.remedy)
        with self.assertRaisesRegex(bee.InvalidError, "another user may have written"):
            bee.run(APP, "app ${case.n}", array={"cases": {"file": "cases.csv"}})

    def test_async(self):
        async def both():
            array = await bee.aio.array(APP, "app ${case.n}", cases=[{"n": 5}, {"n": 6}])
            await array.wait()
            return array, [await run.logs() for run in await array.runs()]

        array, logs = asyncio.run(both())
        self.assertEqual((array.states, logs), ({"succeeded": 2}, ["steps 5\n", "steps 6\n"]))


class Errors(InDirectory):
    def test_kinds(self):
        with self.assertRaises(bee.TaskError) as caught:
            bee.run(APP, "exit 7").wait()
        error = caught.exception
        self.assertEqual((error.exit_code, error.kind, error.record["state"]), (7, "permanent", "failed"))
        with self.assertRaises(bee.NotFoundError) as caught:
            bee.get("nosuch")
        self.assertEqual(caught.exception.remedy, "`bee ps -a` lists all runs.")
        with self.assertRaises(bee.NotFoundError):
            list(bee.Run(bee._default._program, {"id": "nosuch", "state": "queued"}).pieces())
        with self.assertRaises(bee.InvalidError) as caught:
            bee.run(APP, "true", nodes=0, nosuch=1)
        self.assertEqual(len(caught.exception.problems), 2)
        with self.assertRaises(bee.InvalidError):
            bee.run(APP, env={"A": object()})
        with self.assertRaises(bee.UnsupportedError):
            bee.run(APP, "true", nodes=1000).wait()

    def test_stop_and_timeout(self):
        run = bee.run(APP, "trap 'exit 0' TERM; echo begun; sleep 1000 & wait")
        with self.assertRaises(TimeoutError) as caught:
            run.wait(timeout=0.01)
        self.assertIsInstance(caught.exception, bee.WaitTimeoutError)
        until(lambda: "begun" in run.logs())
        run.stop()
        self.assertEqual(run.state, "stopped")
        with self.assertRaises(bee.StoppedError):
            run.wait()
        self.assertIs(run.wait(check=False), run)

    def test_an_interrupt_leaves_the_run_alone(self):
        """As Ctrl-C on a terminal, where the whole group of processes gets it."""
        script = f"import bee; r = bee.run({APP!r}, 'until test -e end; do sleep 0.1; done'); print(r.id, flush=True); r.wait()"
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True)
        run = bee.get(process.stdout.readline().strip())
        until(lambda: run.reload().state == "running")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(run.reload().state, "running")
        run.stop()

    def test_several_jobs(self):
        Path("jobs.yaml").write_text(f"{{name: mesh, image: '{APP}', run: 'true'}}\n---\n{{name: plot, image: '{APP}', after: [mesh], run: 'true'}}\n")
        with self.assertRaisesRegex(bee.InvalidError, "one is wanted"):
            bee.run("jobs.yaml")
        self.assertEqual([r.name for r in bee.runs(all=True) if r.name in ("mesh", "plot")], [])


class Programs(InDirectory):
    def program(self, text):
        path = self.dir / "other"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return bee.Bee(program=str(path))

    def test_versions_that_do_not_fit(self):
        for version in ("0.0.9", "v2.0.0-rc1"):
            with self.subTest(version), self.assertRaisesRegex(bee.VersionError, version) as caught:
                self.program(f"""echo '{{"version": "{version}"}}'""").runs()
            self.assertTrue(caught.exception.remedy)
        with self.assertRaises(bee.VersionError):
            self.program("echo buzz").runs()
        with self.assertRaises(bee.VersionError):
            self.program("exit 3").runs()

    def test_programs_that_are_absent(self):
        with self.assertRaises(bee.ProgramNotFoundError):
            bee.Bee(program=str(self.dir / "nosuch")).runs()

    def test_directories(self):
        other = bee.Bee(state=str(self.dir / "state"))
        self.assertEqual(other.runs(all=True), [])
        self.assertTrue((self.dir / "state").is_dir())


class Async(InDirectory):
    def test_twins(self):
        async def main():
            self.assertEqual(await bee.aio.version(), bee.version())
            first, second = await asyncio.gather(bee.aio.run(APP, "app 1"), bee.aio.run(APP, "exit 3"))
            await first.wait()
            with self.assertRaises(bee.TaskError):
                await second.wait()
            self.assertEqual(await first.logs(), "steps 1\n")
            self.assertEqual([e.number async for e in first.events()], [e.number for e in bee.get(first.id).events()])
            with self.assertRaises(bee.NotFoundError):
                await bee.aio.get("nosuch")
            long = await bee.aio.run(APP, "echo begun; sleep 1000")
            async for piece in long.pieces(follow=True):
                self.assertEqual(piece.text, "begun\n")
                break
            with self.assertRaises(asyncio.TimeoutError):  # its task is cancelled
                await asyncio.wait_for(long.wait(), 0.3)
            self.assertEqual((await long.reload()).state, "running")
            self.assertEqual((await long.stop()).state, "stopped")
            self.assertIn(long.id, [r.id for r in await bee.aio.runs(all=True)])

        asyncio.run(main())

    def test_every_name_has_a_twin(self):
        for sync, twin in ((bee.Run, bee.aio.Run), (bee.Bee, bee.aio.Bee)):
            self.assertEqual(public(sync), public(twin))


def public(c):
    return {n for n in dir(c) if not n.startswith("_")}


class Notebooks(InDirectory):
    def test_texts_of_jobs_are_only_displayed(self):
        name, evil = "steps", "<script>alert(1)</script>\x1b[31m\u202e&"
        run = bee.Run(bee._default._program, {"id": "abcdefgh", "name": name, "state": "failed", "error": {"kind": "lost", "message": evil, "remedy": evil}, "why": evil})
        shown = run._repr_html_()
        self.assertIn("&lt;script&gt;", shown)
        for part in ("<script", "\x1b", "\u202e"):
            self.assertNotIn(part, shown)
        self.assertLess(len(bee.Run(bee._default._program, {"id": "a", "state": "queued", "why": "x" * 10**7})._repr_html_()), 10**4)

    def test_a_shown_run_changes(self):
        """With a stand-in for IPython; notebook.py has the real one."""
        shown, handle, display = [], types.SimpleNamespace(), types.ModuleType("IPython.display")
        handle.update = shown.append
        display.HTML = str
        display.display = lambda html, display_id: shown.append(html) or handle
        run = bee.run(APP, "sleep 1000")
        with unittest.mock.patch.dict(sys.modules, {"IPython": display, "IPython.display": display}):
            run._ipython_display_()
        until(lambda: "running" in shown[-1])
        bee.get(run.id).stop()
        until(lambda: "stopped" in shown[-1] and run.over)
        self.assertIn("queued", shown[0])


if __name__ == "__main__":
    unittest.main()
