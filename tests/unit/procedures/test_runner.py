"""Procedures in their processes: what they return, and how a call fails without harm to the next one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rowlock_regionserver.errors import (
    CorruptionError,
    ProcedureFailedError,
    ProcedureNotFoundError,
    RegionServerError,
    RegionTooBusyError,
)
from rowlock_regionserver.operations import ColumnSelector, Delete, DeleteKind, ProcedureReply, Put
from rowlock_regionserver.procedures.runner import ProcedureStatistics

from .conftest import PATIENT, NewRunner, run

HASTY = replace(PATIENT, procedure_ms_max=300)


def test_a_call_returns_answer_and_changes_in_order(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        def change(table, row, argument):
            assert table.name == "t" and row == b"r"
            table.delete(row, ["f:old", "g"])
            table.put(row, {"f:a": "1", b"f:b": argument})
            return b"done"
        """
    )
    assert run(runner, "change", b"\x00\xff") == ProcedureReply(
        b"r",
        b"done",
        (
            Delete(DeleteKind.COLUMN, b"f", b"old"),
            Delete(DeleteKind.FAMILY, b"g"),
            Put(b"f", b"a", b"1"),
            Put(b"f", b"b", b"\x00\xff"),
        ),
    )


def test_a_procedure_reads_what_it_asks_for(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        def read(table, row, argument):
            one = table.row(row, ["f:a", "g"])
            return repr((one, table.row(row))).encode()
        """
    )
    asked: list[Sequence[ColumnSelector]] = []

    def read(columns: Sequence[ColumnSelector]) -> list[tuple[bytes, bytes, bytes]]:
        asked.append(columns)
        return [(b"f", b"a", b"\x00"), (b"g", b"", b"")]

    found = {b"f:a": b"\x00", b"g:": b""}
    assert run(runner, "read", read=read).answer == repr((found, found)).encode()
    assert asked == [[ColumnSelector(b"f", b"a"), ColumnSelector(b"g")], []]


def test_the_message_of_what_a_procedure_raises_comes_back_and_its_changes_do_not(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        def fail(table, row, argument):
            table.put(row, {"f:a": "1"})
            raise ValueError("no more " + argument.decode())
        """
    )
    with pytest.raises(ProcedureFailedError, match=r"'fail' .* row 'r'.*: ValueError: no more beer \(procedures_0.py"):
        run(runner, "fail", b"beer")
    with pytest.raises(ProcedureFailedError, match="no more wine"):
        run(runner, "fail", b"wine")


@pytest.mark.parametrize(("value", "kind"), [("3", "int"), ("None", "NoneType"), ("'text'", "str")])
def test_what_is_no_bytes_is_no_answer(new_runner: NewRunner, value: str, kind: str) -> None:
    runner = new_runner(f"def answer(table, row, argument):\n    return {value}\n")
    with pytest.raises(ProcedureFailedError, match=f"it returned {kind}, not bytes"):
        run(runner, "answer")


@pytest.mark.parametrize("use", ['put("other", {"f:a": "1"})', 'row(b"other")', 'delete("other")'])
def test_a_procedure_uses_no_other_row(new_runner: NewRunner, use: str) -> None:
    runner = new_runner(f"def stray(table, row, argument):\n    table.{use}\n    return b''\n")
    with pytest.raises(ProcedureFailedError, match=r"called for row 'r', and may not read or change row 'other'"):
        run(runner, "stray")


def test_a_call_that_takes_too_long_is_killed_with_its_process(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import os

        def spin(table, row, argument):
            table.put(row, {"f:a": "1"})
            table.row(row)
            while True:
                pass

        def process(table, row, argument):
            return str(os.getpid()).encode()
        """,
        HASTY,
    )
    pids: list[int] = []

    def read(_: object) -> list[tuple[bytes, bytes, bytes]]:
        pids.extend(child.pid for child in _children())
        return []

    with pytest.raises(ProcedureFailedError, match="took longer than procedure_ms_max = 300 ms"):
        run(runner, "spin", read=read)
    assert len(pids) == 1
    assert not _children(), "the process still runs"


def test_a_result_that_comes_too_late_is_none(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import time

        def late(table, row, argument):
            table.put(row, {"f:a": "1"})
            time.sleep(0.5)
            return b"late"
        """,
        HASTY,
    )
    with pytest.raises(ProcedureFailedError, match="took longer"):
        run(runner, "late")


def test_code_that_never_lets_go_of_the_interpreter_is_killed_too(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import re

        def match(table, row, argument):
            re.match("(a+)+b", "a" * 64)
            return b""
        """,
        HASTY,
    )
    with pytest.raises(ProcedureFailedError, match="took longer"):
        run(runner, "match")


def test_a_process_that_dies_fails_its_call_and_is_replaced(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import os, signal

        def leave(table, row, argument):
            os._exit(7)

        def crash(table, row, argument):
            os.kill(os.getpid(), signal.SIGSEGV)

        def live(table, row, argument):
            return b"yes"
        """
    )
    with pytest.raises(ProcedureFailedError, match="its process ended with exit code 7"):
        run(runner, "leave")
    with pytest.raises(ProcedureFailedError, match="its process ended by signal 11"):
        run(runner, "crash")
    assert run(runner, "live").answer == b"yes"


def test_a_process_that_dies_between_calls_is_replaced(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import os, threading

        def leave_soon(table, row, argument):
            threading.Timer(0.01, os._exit, [1]).start()
            return str(os.getpid()).encode()

        def live(table, row, argument):
            return b"yes"
        """
    )
    pid = int(run(runner, "leave_soon").answer)
    # Not when it is a zombie: then some of its threads may still run, and it can't be waited for.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert run(runner, "live").answer == b"yes"


def test_a_process_is_used_again(new_runner: NewRunner) -> None:
    runner = new_runner("import os\ndef process(table, row, argument):\n    return str(os.getpid()).encode()\n")
    assert run(runner, "process").answer == run(runner, "process").answer


def test_the_memory_of_a_process_is_bounded(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        def take(table, row, argument):
            return bytes(int(argument))[:1]
        """,
        replace(PATIENT, procedure_memory_bytes_max=64 << 20),
    )
    assert run(runner, "take", b"%d" % (16 << 20)).answer == b"\0"
    with pytest.raises(ProcedureFailedError, match="MemoryError"):
        run(runner, "take", b"%d" % (64 << 20))
    assert run(runner, "take", b"%d" % (16 << 20)).answer == b"\0"


def test_what_returns_too_much_is_killed(new_runner: NewRunner) -> None:
    runner = new_runner("def long(table, row, argument):\n    return b'x' * 10_000_000\n")
    with pytest.raises(
        ProcedureFailedError, match=r"10000[0-9]{3} bytes, more than procedure_write_bytes_max = 262144"
    ):
        run(runner, "long")
    assert not _children()


def test_a_read_that_is_refused_fails_the_call_whatever_the_procedure_does_then(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        def stubborn(table, row, argument):
            try:
                table.row(row)
            except BaseException:
                pass
            table.put(row, {"f:a": "1"})
            return b"as if nothing had happened"

        def live(table, row, argument):
            return b"yes"
        """
    )

    def read(_: object) -> list[tuple[bytes, bytes, bytes]]:
        raise CorruptionError(Path(__file__), 0, "a block", "none")

    with pytest.raises(CorruptionError):
        run(runner, "stubborn", read=read)
    pids = _children()
    assert run(runner, "live").answer == b"yes"
    assert _children() == pids, "the process was good for another call"


def test_a_table_kept_from_an_earlier_call_is_of_no_use(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        kept = []

        def keep(table, row, argument):
            kept.append(table)
            return b""

        def use(table, row, argument):
            kept[0].row(row)
            return b""
        """
    )
    run(runner, "keep")
    with pytest.raises(ProcedureFailedError, match="has returned"):
        run(runner, "use")


def test_messages_out_of_turn_end_the_process(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import gc
        from rowlock_regionserver.procedures.messages import Channel, MessageKind

        def lie(table, row, argument):
            channel, = [thing for thing in gc.get_objects() if isinstance(thing, Channel)]
            channel.send(MessageKind.DONE, [b"99", row, b"not mine"])
            return b"mine"
        """
    )
    with pytest.raises(ProcedureFailedError, match="makes no sense: DONE of another call"):
        run(runner, "lie")
    assert not _children()


def test_a_module_that_cannot_be_imported_fails_its_own_calls_only(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import sys

        def absent(table, row, argument):
            return b""

        def present(table, row, argument):
            return b"yes"

        if any("procedures.child" in word for word in sys.orig_argv):
            del absent
        """
    )
    with pytest.raises(ProcedureFailedError, match="it can't be imported: AttributeError"):
        run(runner, "absent")
    assert run(runner, "present").answer == b"yes"


def test_a_process_that_does_not_start_is_reported(new_runner: NewRunner) -> None:
    runner = new_runner(
        """
        import os, sys

        def never(table, row, argument):
            return b""

        if any("procedures.child" in word for word in sys.orig_argv):
            os._exit(5)
        """
    )
    with pytest.raises(RegionTooBusyError, match=r"does not start.* with exit code 5"):
        run(runner, "never")


def test_what_a_procedure_prints_does_not_reach_standard_output(
    new_runner: NewRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = new_runner("def speak(table, row, argument):\n    print('hello', flush=True)\n    return b''\n")
    run(runner, "speak")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_calls_run_at_once_in_processes_of_their_own(new_runner: NewRunner) -> None:
    runner = new_runner(
        "def read(table, row, argument):\n    table.row(row)\n    return b''\n", replace(PATIENT, procedure_processes=2)
    )
    both = threading.Barrier(2)

    def read(_: object) -> list[tuple[bytes, bytes, bytes]]:
        both.wait(PATIENT.procedure_ms_max / 1000)
        return []

    threads = [threading.Thread(target=run, args=(runner, "read", b"", read)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runner.statistics() == [ProcedureStatistics("read", 2, 0)]


def test_unknown_names_are_refused_with_those_that_are_known(new_runner: NewRunner) -> None:
    runner = new_runner(
        "def one(table, row, argument):\n    return b''\ndef two(table, row, argument):\n    return b''\n"
    )
    with pytest.raises(ProcedureNotFoundError, match="no procedure 'three'; it has: one, two"):
        run(runner, "three")
    with pytest.raises(ProcedureNotFoundError, match="runs no procedures"):
        run(new_runner(""), "one")


def test_calls_and_failures_are_counted(new_runner: NewRunner) -> None:
    runner = new_runner("def check(table, row, argument):\n    assert argument\n    return b''\n")
    run(runner, "check", b"x")
    for _ in range(2):
        with pytest.raises(RegionServerError):
            run(runner, "check", b"")
    assert runner.statistics() == [ProcedureStatistics("check", 3, 2)]


def test_processes_start_before_they_are_needed_and_end_with_the_server(new_runner: NewRunner) -> None:
    runner = new_runner("def one(table, row, argument):\n    return b''\n", replace(PATIENT, procedure_processes=2))
    runner.start()
    assert len(_children()) == 2
    run(runner, "one")
    runner.stop()
    assert not _children()


def _children() -> list[psutil.Process]:
    """The processes of procedures that have not ended. One that is ending has no command line any more."""
    return [
        child
        for child in psutil.Process(os.getpid()).children()
        if child.status() != psutil.STATUS_ZOMBIE
        and (not child.cmdline() or any("procedures.child" in word for word in child.cmdline()))
    ]
