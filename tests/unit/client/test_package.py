"""The package itself: its names, what importing it costs, addresses, time limits, and forks."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import rowlock
from rowlock._transport.channels import given_addresses, parse_addresses
from rowlock._transport.timeouts import Timeouts

from tests.waiting import WAIT_S


def homes() -> dict[str, str]:
    """The module of each public name, by the imports that type checkers see."""
    (typed,) = [part for part in ast.parse(inspect.getsource(rowlock)).body if isinstance(part, ast.If)]
    imports = [part for part in typed.body if isinstance(part, ast.ImportFrom) and part.module != "rowlock"]
    return {alias.name: str(part.module) for part in imports for alias in part.names}


def test_every_public_name_is_found_where_it_is_said_to_be() -> None:
    assert sorted(rowlock.__all__) == sorted([*homes(), *rowlock.errors.__all__, "aio"])
    for name, module in homes().items():
        assert getattr(rowlock, name) is getattr(importlib.import_module(module), name)
    assert rowlock.aio is importlib.import_module("rowlock.aio")
    assert set(rowlock.__all__) <= set(dir(rowlock))
    with pytest.raises(AttributeError, match="'nonsense'"):
        rowlock.nonsense  # noqa: B018


def imported(code: str) -> set[str]:
    """Returns the modules that a new Python process has imported after running the code."""
    code += "\nimport sys; sys.stdout.write(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not {"grpc", "pyarrow", "numpy", "pandas"} & imported(
        "import rowlock; rowlock.Family; rowlock.UnknownOutcomeError"
    )


def test_reading_and_writing_arrow_imports_no_pandas() -> None:
    modules = imported(
        "import numpy as np, pyarrow as pa, rowlock\n"
        "from rowlock._codec.arrow_buffers import names_array, primitive_array\n"
        "from rowlock._core.bulk_input import Sizes, bulk_pieces\n"
        "from rowlock._codec.mapped_rows import rows_from_form\n"
        "from rowlock._codec.row_form import RowFormReader, form_of\n"
        "from rowlock._core.scan_plan import ScanPlan, in_row_form\n"
        "from rowlock_proto.v1 import region_pb2\n"
        "from rowlock.rows import python_cells, python_rows\n"
        "mapping = rowlock.Mapping('a STRING :key, b INT :key ordered, c INT f:c, d DECIMAL(4,1) f:d text')\n"
        "texts = names_array([b'x', b'y']).cast(pa.string())\n"
        "numbers = primitive_array(pa.int32(), np.array([1, 2], np.int32), None)\n"
        "decimals = numbers.cast(pa.decimal128(11, 0)).cast(pa.decimal128(4, 1))\n"
        "batch = pa.RecordBatch.from_arrays([texts, numbers, numbers, decimals], schema=mapping.schema)\n"
        "(made,) = bulk_pieces(batch, mapping, 5, Sizes(10000, None))\n"
        "cells = pa.Table.from_batches([made.data.cells()])\n"
        "form = pa.table([names_array([b'x|123.', b'y|1234']), names_array([b'four'] * 2), names_array([b'1.5'] * 2)], "
        "names=['row', '0', '1'])\n"
        "assert rows_from_form(form, mapping).num_rows == 2\n"
        "plan = in_row_form(ScanPlan('t', (), region_pb2.ScanRequest(), None, False, False), form_of(mapping))\n"
        "RowFormReader.of(plan.row_form, plan.template)\n"
        "assert len(list(python_rows(cells, bytes))) == 2\n"
        "assert len(list(python_cells(cells, bytes))) == 4\n"
    )
    assert "pandas" not in modules


def test_fork_support_is_on_before_grpc_is_imported_and_an_explicit_choice_is_kept() -> None:
    code = "import rowlock, os, sys; sys.exit(os.environ['GRPC_ENABLE_FORK_SUPPORT'] != {!r} or 'grpc' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    subprocess.run([sys.executable, "-c", code.format("1")], env=environment, check=True)
    environment["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    subprocess.run([sys.executable, "-c", code.format("0")], env=environment, check=True)


@pytest.mark.parametrize("first", ["grpc", "rowlock"])
def test_a_fork_with_a_client_open_warns_if_grpc_came_first(first: str) -> None:
    code = (
        f"import {first}, os, rowlock\n"
        "from rowlock._transport.servers import Servers\n"
        "servers = Servers(('127.0.0.1:1',))\n"
        "servers.channel('127.0.0.1:1')\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ("the child may hang" in completed.stderr) == (first == "grpc")


# Another thread registers a client while this one forks, and holds the lock until the gate opens, which is later.
FORK_BESIDE_REGISTERING = """
import os, select, threading
from rowlock._transport import fork

class Client:
    is_connected = is_asyncio = False

    def before_fork(self):
        threading.Thread(target=fork.register, args=(Late(),)).start()
        assert is_registering.wait(WAIT_S)

    def after_fork(self):
        pass

    after_fork_in_parent = after_fork_in_child = after_fork

class Late(Client):
    def __hash__(self):
        is_registering.set()
        with fork.gate:
            return id(self)

is_registering = threading.Event()
client = Client()
fork.register(client)
pid = os.fork()
if pid == 0:
    os._exit(0)
if not select.select([os.pidfd_open(pid)], [], [], 60)[0]:
    os.kill(pid, 9)
print(os.waitpid(pid, 0)[1])
"""


def test_the_child_of_a_fork_does_not_wait_for_a_thread_that_was_registering_a_client() -> None:
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_BESIDE_REGISTERING]
    assert subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout == "0\n"


def test_addresses_may_leave_out_the_port() -> None:
    assert parse_addresses("a, b:1,[::1]:2,[::1]") == ("a:7460", "b:1", "[::1]:2", "[::1]:7460")


def test_a_socket_is_an_address_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_addresses("unix:data/socket, unix:/run/s,b") == (
        f"unix:{tmp_path}/data/socket",
        "unix:/run/s",
        "b:7460",
    )
    monkeypatch.setenv("ROWLOCK_SERVER", "unix:/run/s")
    assert given_addresses(None) == ("unix:/run/s",)


@pytest.mark.parametrize("text", ["", " , ", "a:", "a:x", "a:0", "a:65536", ":5", "http://a:5", "u@a:5", "unix:"])
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(rowlock.InvalidArgumentError):
        parse_addresses(text)


def test_a_limit_expires_once_and_only_if_the_wait_is_late() -> None:
    timeouts = Timeouts()
    struck = threading.Event()
    with timeouts.limit(60, lambda: pytest.fail("it was not late")) as early, timeouts.limit(0.05, struck.set) as late:
        assert struck.wait(WAIT_S)
    assert late.has_expired
    assert not early.has_expired
    with timeouts.limit(60, struck.clear):
        pass
    assert struck.is_set()


def test_limits_of_waits_that_are_over_are_removed_behind_a_long_one() -> None:
    timeouts = Timeouts()
    with timeouts.limit(3600, lambda: pytest.fail("it was not late")):
        for _ in range(1000):
            with timeouts.limit(7200, lambda: pytest.fail("it was not late")):
                assert len(timeouts) <= 4
    assert len(timeouts) == 0
    struck = threading.Event()
    with timeouts.limit(0.01, struck.set):
        assert struck.wait(WAIT_S)


def test_the_thread_of_the_limits_ends_after_the_last_wait_of_a_closed_client() -> None:
    timeouts = Timeouts()
    with timeouts.limit(3600, lambda: pytest.fail("it was not late")):
        (thread,) = [thread for thread in threading.enumerate() if thread is timeouts._thread]
        timeouts.close()
        struck = threading.Event()
        with timeouts.limit(0.01, struck.set):
            assert struck.wait(WAIT_S)
        assert thread.is_alive()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    with timeouts.limit(0.01, struck.clear) as late:
        while not late.has_expired:
            threading.Event().wait(0.001)
    assert not struck.is_set()


def test_help_says_what_the_fields_of_settings_and_answers_mean() -> None:
    explained_by_their_names = {"name", "table", "start", "stop", "server", "region", "regions", "version"}
    for kind in (
        rowlock.BulkResult,
        rowlock.CellFilter,
        rowlock.CheckResult,
        rowlock.Family,
        rowlock.Limits,
        rowlock.Region,
        rowlock.RegionStatistics,
        rowlock.ServerInfo,
        rowlock.TableDescription,
    ):
        fields = {item.name for item in dataclasses.fields(kind) if item.repr} - explained_by_their_names
        missing = [name for name in fields if not re.search(rf"\b{name}\b", kind.__doc__ or "")]
        assert not missing, kind
    assert "0: never" in (rowlock.Family.__doc__ or "")
