"""Many threads fork while a client is in use: every child works, and all threads continue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rowlock
from rowlock.pytest_plugin import RowlockServer

# In its own process, because a broken build hangs in the fork itself.
PROGRAM = """
import os, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
import rowlock

FORKERS, FORKS, CALLERS = 6, 5, 3
db = rowlock.connect(sys.argv[1], timeout=120)
table = db.table("t")
over = threading.Event()

def keep_calling():
    while not over.is_set():
        table.increment("parent", "f:n")

def child_that_is_another_program(_):
    return subprocess.run(["true"], preexec_fn=lambda: None).returncode

def child_that_calls(_):
    pid = os.fork()
    if pid == 0:
        try:
            table.increment("children", "f:n")
            os._exit(0)
        except BaseException as error:
            os.write(2, f"a child: {error!r}\\n".encode())
        os._exit(1)
    return os.waitpid(pid, 0)[1]

with ThreadPoolExecutor(CALLERS) as callers, ThreadPoolExecutor(FORKERS) as forkers:
    calls = [callers.submit(keep_calling) for _ in range(CALLERS)]
    try:
        for child in (child_that_is_another_program, child_that_calls):
            assert set(forkers.map(child, range(FORKERS * FORKS))) == {0}
    finally:
        over.set()
    for call in calls:
        call.result()
print(table.counter("children", "f:n"))
db.close()
"""


def test_threads_fork_while_other_threads_call(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    # Python 3.12 warns of a fork with threads, which is what this test is about.
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, rowlock_server.address]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "30\n", "")


# A package of that name is imported by rowlock itself; this one takes its time.
PACKAGE = """
import builtins
builtins.is_importing.set()
builtins.may_end.wait()
"""
FORK_DURING_IMPORT = """
import builtins, os, signal, sys, threading
import rowlock

builtins.is_importing, builtins.may_end = threading.Event(), threading.Event()
sys.path.insert(0, sys.argv[2])
with rowlock.connect(sys.argv[1], timeout=120) as db:
    db.tables()
    threading.Thread(target=__import__, args=("pandas",)).start()
    builtins.is_importing.wait()
    threading.Timer(0.2, builtins.may_end.set).start()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        import pandas
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
"""


def test_a_child_can_import_what_another_thread_was_importing(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    (tmp_path / "pandas.py").write_text(PACKAGE)
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK_DURING_IMPORT, rowlock_server.address]
    ran = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0\n", "")
