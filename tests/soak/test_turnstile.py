"""The turnstile of the soak."""

from __future__ import annotations

import threading

from tests.soak.turnstile import Turnstile
from tests.waiting import WAIT_S, wait_until


def test_two_threads_are_alone_one_after_the_other() -> None:
    turnstile = Turnstile()
    together: list[int] = []
    inside = 0

    def be_alone() -> None:
        nonlocal inside
        for _ in range(300):
            with turnstile.alone():
                inside += 1
                together.append(inside)
                threading.Event().wait(0)
                inside -= 1

    threads = [threading.Thread(target=be_alone) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert together == [1] * 900


def test_who_is_alone_waits_for_the_turns_and_holds_up_new_ones() -> None:
    turnstile = Turnstile()
    done: list[str] = []

    def be_alone() -> None:
        with turnstile.alone():
            done.append("alone")

    def take_a_turn() -> None:
        with turnstile.turn():
            done.append("turn")

    with turnstile.turn():
        first = threading.Thread(target=be_alone)
        first.start()
        wait_until(lambda: turnstile._alone == 1)
        second = threading.Thread(target=take_a_turn)
        second.start()
        assert not done
    first.join(WAIT_S)
    second.join(WAIT_S)
    assert done == ["alone", "turn"]
