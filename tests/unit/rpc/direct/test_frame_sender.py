"""Sends frames to a socket that takes any number of bytes at once, also none, or to the edge of a part."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import cast

import pyarrow as pa
from rowlock_proto.direct_frames import SCAN_BATCH, frame
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, MessageParts, joined
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.direct.frame_sender import _PARTS_MAX, FrameSender

from tests.seeds import drawn_seed
from tests.unit.engine.loops import run


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
        sender.send(SCAN_BATCH, message)
        expected += frame(SCAN_BATCH, joined(message))
        assert sender.unsent_bytes == len(expected) - len(slow.taken), f"seed {seed}, case {case}"
        if chance.random() < 0.3:
            sender.keep_unsent()
            assert account.bytes_held == sender.unsent_bytes, f"seed {seed}, case {case}"
        if chance.random() < 0.5 and (sent := sender.sent()) is not None:
            await sent
    if (sent := sender.sent()) is not None:
        await sent
    assert slow.taken == expected, f"seed {seed}, case {case}"
    assert sender.unsent_bytes == account.bytes_held == 0
    sender.close()
