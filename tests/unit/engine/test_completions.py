"""Completions: all callbacks reach the loop, together with those that are posted just after them."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest
from rowlock_regionserver.engine.completions import Completions

from tests.unit.engine.loops import run, until


def test_callbacks_from_many_threads_run_once_each_in_each_threads_order() -> None:
    async def test() -> None:
        completions = Completions(asyncio.get_running_loop(), lambda: 4000)
        arrived: list[tuple[int, int]] = []

        def post(thread: int) -> None:
            for number in range(1000):
                completions.post(partial(arrived.append, (thread, number)))

        threads = [threading.Thread(target=post, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        await until(lambda: len(arrived) == 4000)
        for thread in threads:
            thread.join()
        for name in range(4):
            assert [number for thread, number in arrived if thread == name] == list(range(1000))

    run(test)


def test_a_poster_that_has_more_is_waited_for_one_turn_of_the_loop() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        turns: list[str] = []
        completions = Completions(loop, lambda: 2)
        completions.post(lambda: turns.append("first"))
        loop.call_soon(completions.post, lambda: turns.append("second"))
        loop.call_soon(turns.append, "this turn")
        await until(lambda: len(turns) == 3)
        assert turns == ["this turn", "first", "second"]

    run(test)


def test_the_loop_drains_at_once_when_no_more_is_expected() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        turns: list[str] = []
        completions = Completions(loop, lambda: 1)
        completions.post(lambda: turns.append("first"))
        loop.call_soon(turns.append, "this turn")
        await until(lambda: len(turns) == 2)
        assert turns == ["first", "this turn"]

    run(test)


def test_an_error_in_one_does_not_lose_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        completions = Completions(asyncio.get_running_loop(), lambda: 2)
        arrived: list[int] = []
        completions.post(lambda: arrived.append(1 // 0))
        completions.post(lambda: arrived.append(2))
        await until(lambda: arrived == [2])

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_posting_to_a_closed_loop_does_nothing() -> None:
    loop = asyncio.new_event_loop()
    completions = Completions(loop, lambda: 1)
    loop.close()
    completions.post(lambda: None)


def test_what_is_to_be_done_soon_is_done_when_all_posted_callbacks_have_run() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        turns: list[str] = []
        completions = Completions(loop, lambda: 2)

        def first() -> None:
            turns.append("first")
            completions.soon(lambda: turns.append("afterwards"))
            loop.call_soon(turns.append, "the next turn")

        completions.post(first)
        completions.post(lambda: turns.append("second"))
        await until(lambda: len(turns) == 4)
        assert turns == ["first", "second", "afterwards", "the next turn"]
        completions.soon(lambda: turns.append("soon"))
        assert turns[4:] == []
        await until(lambda: turns[4:] == ["soon"])

    run(test)


def test_a_bug_in_what_is_done_afterwards_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        done: list[str] = []
        completions = Completions(asyncio.get_running_loop(), lambda: 1)

        def both() -> None:
            completions.soon(lambda: done.append(str(1 // 0)))
            completions.soon(lambda: done.append("second"))

        completions.post(both)
        await until(lambda: done == ["second"])
        completions.post(lambda: done.append("third"))
        await until(lambda: done == ["second", "third"])

    run(test)
    assert "ZeroDivisionError" in caplog.text
