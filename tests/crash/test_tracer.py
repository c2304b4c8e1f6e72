"""The tracer stops before each changing call, in any thread, and does what `decide` returns."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_traced(folder: Path, work: str, decide: str) -> str:
    """Runs `work` under the tracer with `decide(call)` in a process with one thread; returns its output."""
    program = f"""
    import os, threading
    from tests.crash.tracer import Action, traced
    folder = {str(folder)!r}
    def work():
{textwrap.indent(textwrap.dedent(work), " " * 8)}
    seen = []
    def decide(call):
        # Some machines have only the newer forms of a call.
        seen.append(call.name.removesuffix("at2").removesuffix("at").removesuffix("64"))
        return {decide}
    child = traced(work)
    status = child.run(decide)
    print(status, *seen)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WRITES = """
    descriptor = os.open(folder + "/file", os.O_CREAT | os.O_RDWR)
    os.pread(descriptor, 10, 0)
    os.pwrite(descriptor, b"one", 0)
    reader, writer = os.pipe()
    os.write(writer, b"not a file")
    thread = threading.Thread(target=os.pwrite, args=(descriptor, b"two", 3))
    thread.start()
    thread.join()
    os.fsync(descriptor)
    os.rename(folder + "/file", folder + "/done")
"""


def test_each_changing_call_is_seen_in_order_in_any_thread(tmp_path: Path) -> None:
    told = run_traced(tmp_path, WRITES, "Action.GO_ON")
    assert told == "0 open pwrite pwrite fsync rename"
    assert (tmp_path / "done").read_bytes() == b"onetwo"


def test_a_kill_comes_before_the_call(tmp_path: Path) -> None:
    told = run_traced(tmp_path, WRITES, "Action.KILL if call.number == 3 else Action.GO_ON")
    assert told == "9 open pwrite pwrite"
    assert (tmp_path / "file").read_bytes() == b"one"


def test_a_call_can_be_made_to_fail(tmp_path: Path) -> None:
    work = """
        descriptor = os.open(folder + "/file", os.O_CREAT | os.O_RDWR)
        try:
            os.pwrite(descriptor, b"one", 0)
        except OSError as error:
            os.pwrite(descriptor, b"%d" % error.errno, 0)
    """
    told = run_traced(tmp_path, work, f"{errno.ENOSPC} if call.number == 2 else Action.GO_ON")
    assert told == "0 open pwrite pwrite"
    assert (tmp_path / "file").read_bytes() == str(errno.ENOSPC).encode()
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_can_be_shortened(tmp_path: Path) -> None:
    told = run_traced(tmp_path, WRITES, "Action.SHORTEN if call.number == 3 else Action.GO_ON")
    assert told == "0 open pwrite pwrite fsync rename"
    assert (tmp_path / "done").read_bytes() == b"onet"


def test_a_process_that_ends_while_it_is_stopped_is_over(tmp_path: Path) -> None:
    killed = "os.kill(child.pid, 9) or 28 if call.number == 3 else Action.GO_ON"
    assert run_traced(tmp_path, WRITES, killed) == "9 open pwrite pwrite"
