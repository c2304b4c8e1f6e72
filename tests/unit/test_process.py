"""What a server's process asks of Python and of the system before it serves, and when it is ready."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import threading

from rowlock_regionserver.process import COLLECTOR_THRESHOLDS, SWITCH_INTERVAL_SECONDS, yield_now

ASK = """
import resource
from rowlock_regionserver.process import raise_file_limit

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_file_limit()
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def told(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    return ran.stdout


def test_the_server_may_hold_as_many_files_as_the_system_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = 10_240 if hard == resource.RLIM_INFINITY else min(hard, 10_240)
    assert int(told(ASK)) >= least


def test_a_thread_that_computes_gives_way_soon_and_full_collections_are_rare() -> None:
    asked = (
        "import gc, sys; from rowlock_regionserver import process; process.prepare(); "
        "print(round(sys.getswitchinterval(), 6), *gc.get_threshold())"
    )
    assert told(asked).split() == [f"{SWITCH_INTERVAL_SECONDS:g}", *map(str, COLLECTOR_THRESHOLDS)]


def test_what_is_there_when_the_server_is_ready_is_not_walked_by_the_collector() -> None:
    asked = (
        "import gc; from rowlock_regionserver import process; rows = [[number] for number in range(10_000)]; "
        "process.settle(); print(gc.get_freeze_count() >= 10_000, len(gc.get_objects()) < 1000)"
    )
    assert told(asked) == "True True\n"


def test_arrow_computes_in_our_threads() -> None:
    asked = (
        "import pyarrow; from rowlock_regionserver import process; process.limit_arrow(); "
        "print(pyarrow.cpu_count(), pyarrow.io_thread_count())"
    )
    assert told(asked) == "1 1\n"


def test_the_command_asks_for_all_of_it() -> None:
    serves = (
        "import gc, sys\n"
        "from rowlock_regionserver import __main__ as command, process\n"
        "import rowlock_regionserver.server as server\n"
        "server.Server.wait = lambda self: print(\n"
        "    gc.get_threshold() == process.COLLECTOR_THRESHOLDS, gc.get_freeze_count() > 1000,\n"
        "    sys.getswitchinterval() < 0.001, server.__name__)\n"
        "server.Server.start = lambda self: self\n"
        "server.Server.address = 'nowhere:1'\n"
        "command.main(['--data', 'unused'])\n"
    )
    assert told(serves).splitlines()[-1] == "True True True rowlock_regionserver.server"


def test_this_program_is_left_as_it_is() -> None:
    assert gc.get_threshold() != COLLECTOR_THRESHOLDS
    assert gc.get_freeze_count() < 1000  # Python 3.12 freezes some hundred objects of its own.


def test_whoever_gives_way_lets_a_waiting_thread_run() -> None:
    interval, turns = sys.getswitchinterval(), []
    sys.setswitchinterval(1000.0)  # Nothing but giving way hands over the interpreter.
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
