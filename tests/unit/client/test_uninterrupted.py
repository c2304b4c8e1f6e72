"""Blocks that Ctrl-C does not end in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType

import pytest
from rowlock._uninterrupted import Uninterrupted


def test_an_interruption_waits_for_the_end_of_the_block() -> None:
    done = []

    def run() -> None:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_handler_is_called_at_the_end_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert came == []
        assert came == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_makes_a_wait_end_and_is_raised_then() -> None:
    is_over = threading.Event()
    done: list[int] = []

    def run() -> None:
        with Uninterrupted(is_over.set):
            signal.raise_signal(signal.SIGINT)
            assert is_over.wait(180)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [1]


def test_a_wait_goes_on_if_another_handler_is_called() -> None:
    came: list[int] = []
    ends: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with Uninterrupted(lambda: ends.append(1)):
            signal.raise_signal(signal.SIGINT)
            assert came == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
    assert not ends


def test_an_error_of_the_block_is_raised_if_nothing_came() -> None:
    with pytest.raises(ImportError), Uninterrupted():
        raise ImportError("no such module")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_change_no_handler() -> None:
    found: list[object] = []

    def enter() -> None:
        with Uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_import_of_pyarrow_ends_before_it_is_interrupted() -> None:
    """Else it would be there in part, and could not be imported again."""
    program = """
import signal, sys
from rowlock._uninterrupted import Uninterrupted

class Interrupting:
    def find_spec(self, name, *_):
        if name == "pyarrow.lib":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
try:
    with Uninterrupted():
        import rowlock.scan
except KeyboardInterrupt:
    import pyarrow.compute
    sys.exit(0)
sys.exit(1)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
