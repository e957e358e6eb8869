"""Arrays, which wait for bee."""

from __future__ import annotations

import csv
import importlib
import io
import math
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _calls
from ._errors import InvalidError
from ._records import ArrayRecord
from ._run import Run


def frame(table: str) -> Any:
    """Return a table of cases as a DataFrame, with times as such."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError as err:
        raise InvalidError("pandas is not installed", remedy="Install pandas, or use rows().") from err
    texts = {"run": str, "name": str, "error": str, "currency": str}
    cases = pandas.read_csv(io.StringIO(table), dtype=texts, index_col="case", keep_default_na=False, na_values=[""])
    rows = rows_of(table)
    for column in cases.columns:
        if column.startswith("case."):
            cases[column] = values_of([row[column] for row in rows])
    for column in ("created", "ended"):
        cases[column] = pandas.to_datetime(cases[column], utc=True)
    return cases


def values_of(texts: List[str]) -> List[Any]:
    """Return the values of a parameter: numbers if all are, and their texts stay the same."""
    numbers: List[Any] = []
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            return texts
        if abs(number) < 2**53 and text == str(int(number)):
            numbers.append(int(number))
        elif math.isfinite(number) and text == str(number):
            numbers.append(number)
        else:
            return texts
    return numbers if all(isinstance(n, int) for n in numbers) else [float(n) for n in numbers]


def rows_of(table: str) -> List[Dict[str, str]]:
    """Return a table of cases as mappings of texts."""
    return list(csv.DictReader(io.StringIO(table)))


class Array(ArrayRecord):
    """An array. Its properties are those of the newest record that was read.

    ``wait`` and ``reload`` read it. An interrupt of ``wait`` leaves the array alone.
    """

    def reload(self) -> Array:
        """Read the record of the array."""
        self._record = self._program.do(_calls.show(self.id))
        return self

    def wait(self, timeout: Optional[float] = None, check: bool = True) -> Array:
        """Wait until all cases are over.

        With ``check``, the error of the first case that has not succeeded is raised.
        After ``timeout`` seconds, WaitTimeoutError is raised, and the array continues.
        """
        error = self._program.do(_calls.wait_for_cases(self.id, timeout))
        self.reload()
        if check and error is not None:
            raise error
        return self

    def stop(self, without_outputs: bool = False) -> Array:
        """Stop all cases and wait for their end; their outputs are collected."""
        self._program.do(_calls.stop(self.id, without_outputs))
        return self.reload()

    def remove(self, force: bool = False) -> None:
        """Remove the records, logs and checkpoints of all cases, which are over."""
        self._program.do(_calls.remove(self.id, force))

    def retry(self, sites: Union[str, Sequence[str], None] = None, trust: bool = False) -> Array:
        """Run the cases that have ended without success again, in a new array.

        ``trust`` is as for ``array``: a job that had it needs it again.
        """
        return Array(self._program, self._program.do(_calls.retry(self.id, sites, trust)))

    def runs(self) -> List[Run]:
        """Return the run of each case, in their order."""
        return [Run(self._program, self._program.do(_calls.show(row["run"]))) for row in self.rows()]

    def rows(self) -> List[Dict[str, str]]:
        """Return a mapping for each case: the columns of `bee show --csv`, as texts."""
        return rows_of(self._program.do(_calls.table(self.id)))

    def dataframe(self) -> Any:
        """Return the table of cases as a DataFrame of pandas, which has to be installed.

        Its columns are those of `bee show --csv`: parameters, state, times, cost and metrics.
        """
        return frame(self._program.do(_calls.table(self.id)))
