"""Sends frames to a socket that takes any number of bytes at once, also none, or to the edge of a part.

The thread that has a frame sends it, or the event loop does.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import cast

import pyarrow as pa
import pytest
from rowlock_proto.direct_frames import SCAN_BATCH, SCAN_END, frame
from rowlock_proto.sent_parts import _PARTS_MAX
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, MessageParts, joined
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.direct import frame_sender
from rowlock_regionserver.rpc.direct.frame_sender import FrameSender

from tests.seeds import drawn_seed
from tests.unit.engine.loops import run, until
from tests.waiting import WAIT_S


class SlowSocket:
    """A socket that could always take more, and takes some."""

    family = socket.AF_INET

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._ready, self._other = socket.socketpair()
        self.taken = b""

    def dup(self) -> SlowSocket:
        return self

    def fileno(self) -> int:
        return self._ready.fileno()

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        assert 0 < len(parts) <= _PARTS_MAX
        edges = list(accumulate(map(len, parts)))
        count = self._chance.choice([0, 1, self._chance.randrange(edges[-1] + 1), self._chance.choice(edges)])
        if not count:
            raise BlockingIOError
        self.taken += b"".join(parts)[:count]
        return count

    def close(self) -> None:
        self._ready.close()
        self._other.close()


def random_message(chance: random.Random) -> EncodedMessage:
    parts = [chance.randbytes(chance.choice([1, 2, 700])) for _ in range(chance.choice([0, 1, 5, _PARTS_MAX + 2]))]
    if not parts or chance.random() < 0.2:
        return b"".join(parts)
    byte_count = sum(map(len, parts))
    return MessageParts(
        [part if chance.random() < 0.5 else pa.py_buffer(part) for part in parts], byte_count, byte_count
    )


def test_frames_arrive_whole_wherever_the_system_stops() -> None:
    seed = drawn_seed()
    for case in range(30):
        run(partial(check, seed, case))


async def check(seed: int, case: int) -> None:
    chance, account = random.Random(f"{seed} {case}"), Ledger(Config()).scans
    slow = SlowSocket(chance)
    sender = FrameSender(cast("socket.socket", slow), account, lambda: None)
    expected = b""
    for _ in range(chance.randrange(1, 5)):
        message = random_message(chance)
        expected += frame(SCAN_BATCH, joined(message))
        if not sender.unsent_bytes and chance.random() < 0.5:
            was_taken = await asyncio.to_thread(sender.send_now, SCAN_BATCH, message)
            assert was_taken == (slow.taken == expected), f"seed {seed}, case {case}"
        else:
            sender.send(SCAN_BATCH, message)
        assert sender.unsent_bytes == len(expected) - len(slow.taken), f"seed {seed}, case {case}"
        if chance.random() < 0.3:
            sender.keep_unsent()
            assert account.bytes_held == sender.unsent_bytes, f"seed {seed}, case {case}"
        if chance.random() < 0.5 and (rest := sender.send_rest()) is not None:
            await rest
    if (rest := sender.send_rest()) is not None:
        await rest
    assert slow.taken == expected, f"seed {seed}, case {case}"
    assert sender.unsent_bytes == account.bytes_held == 0
    sender.close()


class Pair:
    """A sender, and the other end of its socket. A context manager, which closes both."""

    def __init__(self) -> None:
        self.account = Ledger(Config()).scans
        self.losses: list[None] = []
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        self.sender = FrameSender(ours, self.account, lambda: self.losses.append(None))
        ours.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.sender.close()
        self.theirs.close()

    async def send_now(self, body: EncodedMessage) -> bool:
        """Sends a batch from a thread."""
        return await asyncio.to_thread(self.sender.send_now, SCAN_BATCH, body)

    async def lose(self) -> None:
        """Sends the rest, to a client that is gone."""
        rest = self.sender.send_rest()
        assert rest is not None
        await rest
        assert self.losses == [None]

    def received(self, byte_count: int) -> bytes:
        """Waits for so many bytes."""
        return self.theirs.recv(byte_count, socket.MSG_WAITALL)


LARGE = bytes(range(256)) * (32 << 10)  # 8 MiB, of which the system takes a part


def test_what_a_client_does_not_take_is_left_to_the_event_loop() -> None:
    async def test() -> None:
        with Pair() as pair:
            assert await pair.send_now(b"small")
            assert pair.sender.send_rest() is None
            assert not await pair.send_now(LARGE)
            assert 0 < pair.sender.unsent_bytes < len(LARGE)
            rest = pair.sender.send_rest()
            assert rest is not None
            pair.sender.send(SCAN_END, b"")
            expected = frame(SCAN_BATCH, b"small") + frame(SCAN_BATCH, LARGE) + frame(SCAN_END, b"")
            assert await asyncio.to_thread(pair.received, len(expected)) == expected
            await rest
            assert pair.sender.send_rest() is None

    run(test)


def test_a_thread_that_waits_goes_on_when_the_client_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_sender, "_PATIENCE_SECONDS", WAIT_S)

    async def test() -> None:
        with Pair() as pair:
            sending = asyncio.create_task(pair.send_now(LARGE))
            assert await asyncio.to_thread(pair.received, len(LARGE) + 5) == frame(SCAN_BATCH, LARGE)
            assert await sending
            assert pair.sender.unsent_bytes == 0

    run(test)


def test_a_thread_does_not_wait_for_a_client_that_has_left_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        with Pair() as pair:
            monkeypatch.setattr(frame_sender, "_PATIENCE_SECONDS", 0)
            for _ in range(2):
                assert not await pair.send_now(LARGE)
                rest = pair.sender.send_rest()
                assert rest is not None
                assert await asyncio.to_thread(pair.received, len(LARGE) + 5) == frame(SCAN_BATCH, LARGE)
                await rest
                monkeypatch.setattr(frame_sender, "_PATIENCE_SECONDS", 2 * WAIT_S)
            assert await pair.send_now(b"small")

    run(test)


def test_a_thread_ends_when_the_sender_is_closed_meanwhile() -> None:
    async def test() -> None:
        with Pair() as pair:
            sending = asyncio.create_task(pair.send_now(LARGE))
            await until(lambda: pair.sender.unsent_bytes > 0)
            pair.sender.close()
            assert not await sending
            assert not await pair.send_now(b"later")
            assert pair.sender.unsent_bytes == 0
            assert pair.sender.send_rest() is None
            assert not pair.losses

    run(test)


def test_a_client_that_is_gone_is_noticed_by_the_event_loop() -> None:
    async def test() -> None:
        with Pair() as pair:
            pair.theirs.close()
            assert not await pair.send_now(b"rows")
            assert not pair.losses
            await pair.lose()
            assert pair.sender.unsent_bytes == 0

    run(test)


def test_a_client_that_leaves_while_a_thread_waits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_sender, "_PATIENCE_SECONDS", WAIT_S)

    async def test() -> None:
        with Pair() as pair:
            sending = asyncio.create_task(pair.send_now(LARGE))
            await until(lambda: pair.sender.unsent_bytes > 0)
            pair.theirs.close()
            assert not await sending
            await pair.lose()

    run(test)
