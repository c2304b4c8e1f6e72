"""The raw framed echo carries rowlock's own bytes, and those of many threads together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.targets.framed_echo import FramedEcho, SharedFramedEcho, running_framed_echo
from bench.targets.framed_echo_server import exchanges

_THREADS = 16
_CALLS = 50


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_framed_echo(tmp_path_factory.mktemp("echo")) as address:
        yield address


@pytest.mark.parametrize("method", exchanges())
def test_a_frame_of_requests_is_answered_with_as_many_answers(address: str, method: bytes) -> None:
    answer = exchanges()[method].answer
    with closing(FramedEcho(address)) as echo:
        for count in (1, 3, 200):
            assert echo.exchange(method, count) == method + answer * count


class _Counting(FramedEcho):
    """Counts frames and requests."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.counts: list[int] = []

    def exchange(self, method: bytes, count: int = 1) -> bytes:
        self.counts.append(count)
        return super().exchange(method, count)


def test_requests_that_wait_together_travel_together_and_each_is_answered(address: str) -> None:
    with closing(_Counting(address)) as echo:
        shared = SharedFramedEcho(echo, b"G")
        together = threading.Barrier(_THREADS)

        def call() -> None:
            together.wait()
            for _ in range(_CALLS):
                shared.exchange()

        threads = [threading.Thread(target=call) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(echo.counts) == _THREADS * _CALLS
    assert max(echo.counts) > 1


def test_a_failed_frame_fails_for_all_threads_of_it(address: str) -> None:
    echo = FramedEcho(address)
    echo.close()
    shared = SharedFramedEcho(echo, b"G")
    failures: list[BaseException] = []

    def call() -> None:
        try:
            shared.exchange()
        except ConnectionError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=call) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == _THREADS
