"""Runs what docs/how-to/python.md shows, block after block, as a reader would."""

import io
import os
import re
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "python.md"


class Page(unittest.TestCase):
    def test_blocks(self):
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        self.assertGreater(len(blocks), 7)
        with tempfile.TemporaryDirectory() as directory:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(directory)
            Path("job.yaml").write_text("image: you/app:1\nrun: app $STEPS\n")
            names, out = {}, io.StringIO()
            with redirect_stdout(out):
                for block in blocks:
                    exec(compile(block, str(PAGE), "exec"), names)
            names["run"].wait()
            self.assertEqual((Path("result.txt").read_text(), Path("results/result.txt").read_text()), ("result 100\n", "result 300\n"))
        printed = out.getvalue().splitlines()
        self.assertRegex(printed[0], r"^\[PosixPath\('.*/result.txt'\)\]$")
        self.assertEqual(printed[1:3], ["0", "steps 400"])
        self.assertIn("attempt_state", printed[3])
        self.assertRegex(printed[4], r"^<bee.Run \w+ 'md': succeeded> \d+$")
        self.assertRegex(printed[5], r"^\{'succeeded': 2\} \['[0-9.]+', '[0-9.]+'\]$")
        self.assertEqual(printed[6:], ["7", "['steps 300\\n', 'steps 310\\n']"])


if __name__ == "__main__":
    unittest.main()
