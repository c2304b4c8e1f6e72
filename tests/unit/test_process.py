"""Settings of the server's process in Python and in the system."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import threading

import pytest
from rowlock_regionserver.process import COLLECTOR_THRESHOLDS, SWITCH_INTERVAL_SECONDS, yield_now

RAISE_LIMIT = """
import resource
from rowlock_regionserver.process import raise_file_limit

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_file_limit()
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def output_of(program: str, *words: str) -> str:
    command = [sys.executable, "-c", program, *words]
    without_choice = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=without_choice)
    return ran.stdout


def test_the_server_may_hold_as_many_files_as_the_system_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = 10_240 if hard == resource.RLIM_INFINITY else min(hard, 10_240)
    assert int(output_of(RAISE_LIMIT)) >= least


def test_a_thread_that_computes_yields_soon_and_full_collections_are_rare() -> None:
    program = (
        "import gc, sys; from rowlock_regionserver import process; process.prepare(); "
        "print(round(sys.getswitchinterval(), 6), *gc.get_threshold())"
    )
    assert output_of(program).split() == [f"{SWITCH_INTERVAL_SECONDS:g}", *map(str, COLLECTOR_THRESHOLDS)]
    youngest, _, oldest = COLLECTOR_THRESHOLDS
    assert youngest <= 5_000, "each object takes half a microsecond, in which nothing else runs"
    assert oldest >= 1000


def test_the_collector_does_not_traverse_the_objects_of_a_ready_server() -> None:
    program = (
        "import gc; from rowlock_regionserver import process; rows = [[number] for number in range(10_000)]; "
        "process.freeze_objects(); print(gc.get_freeze_count() >= 10_000, len(gc.get_objects()) < 1000)"
    )
    assert output_of(program) == "True True\n"


def test_arrow_computes_in_our_threads() -> None:
    program = (
        "import pyarrow; from rowlock_regionserver import process; process.limit_arrow(); "
        "print(pyarrow.cpu_count(), pyarrow.io_thread_count())"
    )
    assert output_of(program) == "1 1\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another allocator")
def test_what_arrow_compresses_has_memory_of_the_allocator_that_returns_it() -> None:
    program = (
        "from rowlock_regionserver import process; process.prepare(); import pyarrow as pa; process.limit_arrow(); "
        "options = pa.ipc.IpcWriteOptions(compression='lz4'); rows = pa.table({'q': [b'value' * 100_000]}); "
        "pa.ipc.new_stream(pa.BufferOutputStream(), rows.schema, options=options).write_table(rows); "
        "print(pa.default_memory_pool().backend_name, pa.mimalloc_memory_pool().max_memory() < 1000)"
    )
    assert output_of(program) == "jemalloc True\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another allocator")
def test_large_blocks_leave_no_holes_in_a_server_of_little_memory() -> None:
    program = (
        "import sys; from rowlock_regionserver import process; process.prepare(); import numpy as np; "
        "process.set_allocators(int(sys.argv[1]) << 20); from rowlock_regionserver.resident import anonymous_bytes; "
        "before = anonymous_bytes(); "
        "blocks = [(np.ones(1_500_000, np.uint8), bytes(50_000)) for _ in range(40)]; kept = [b for _, b in blocks]; "
        "held = anonymous_bytes() - before; del blocks; "
        "print(held >> 20, anonymous_bytes() - before >> 20)"
    )
    held, kept = map(int, output_of(program, "64").split())
    assert held > 50
    assert kept < 10
    assert int(output_of(program, "512").split()[1]) > 15, "they do where blocks are not mapped"


def test_the_command_applies_all_settings() -> None:
    serves = (
        "import gc, sys\n"
        "from rowlock_regionserver import __main__ as command, process\n"
        "import rowlock_regionserver.server as server\n"
        "server.Server.wait = lambda self: print(\n"
        "    gc.get_threshold() == process.COLLECTOR_THRESHOLDS, gc.get_freeze_count() > 1000,\n"
        "    sys.getswitchinterval() < 0.001, server.__name__, memory)\n"
        "memory = []\n"
        "process.set_allocators = memory.append\n"
        "server.Server.start = lambda self: self\n"
        "server.Server.address = 'nowhere:1'\n"
        "command.main(['--data', 'unused', '--config', 'memory=65MiB'])\n"
    )
    assert output_of(serves).splitlines()[-1] == f"True True True rowlock_regionserver.server [{65 << 20}]"


def test_the_settings_of_this_program_are_unchanged() -> None:
    assert gc.get_threshold() != COLLECTOR_THRESHOLDS
    assert gc.get_freeze_count() < 1000  # Python 3.12 freezes some hundred objects of its own.


def test_yield_now_lets_a_waiting_thread_run() -> None:
    interval, turns = sys.getswitchinterval(), []
    sys.setswitchinterval(1000.0)  # Only `yield_now` releases the interpreter.
    try:
        other = threading.Thread(target=lambda: turns.append("other"))
        other.start()
        for _ in range(100_000):
            if turns:
                break
            yield_now()
    finally:
        sys.setswitchinterval(interval)
    other.join()
    assert turns == ["other"]
