"""Time limits of waits in grpc's calls."""

from __future__ import annotations

import threading

import pytest
from rowlock._transport.timeouts import Timeouts

from tests.waiting import WAIT_S


def test_after_a_lack_of_threads_the_next_wait_has_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    timeouts, expired = Timeouts(), threading.Event()
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError), timeouts.limit(0.01, expired.set):
            pass
    assert len(timeouts) == 0
    with timeouts.limit(0.01, expired.set):
        assert expired.wait(WAIT_S)
