"""The procedure `exchange` of the row model, installed for the servers that a campaign starts."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.procedure_packages import python_path, write_functions

_SOURCE = """
def exchange(table, row, argument):
    amount, value = argument.split(b" ")
    before = table.row(row, ["f:value"]).get(b"f:value")
    number = table.increment(row, "f:counter", int(amount))
    table.put(row, {"f:value": value, "g:value": value})
    return b"%d %s" % (number, b"-" if before is None else before)
"""


@contextlib.contextmanager
def exchange_installed() -> Iterator[tuple[str, ...]]:
    """Yields the options of a server that runs `exchange`; servers must be started inside."""
    with tempfile.TemporaryDirectory(prefix="rowlock-procedures-") as place:
        write_functions(Path(place), "exchange_procedure", _SOURCE)
        with mock.patch.dict(os.environ, {"PYTHONPATH": python_path(Path(place))}):
            # A call that is late on a loaded machine would not be an answer of the model.
            yield "--config=procedures=exchange", "--config=procedure_ms_max=60000"
