"""Bytes received in any pieces are cut into the frames that were sent, also by readers that share a scratch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from rowlock_proto.direct_frames import (
    HEAD,
    LARGE_BODY_BYTES,
    PREAMBLE,
    Frame,
    FrameError,
    FrameReader,
    VersionError,
    frame,
)

from tests.seeds import drawn_seed

LIMIT = 4 * LARGE_BODY_BYTES
SCRATCH_BYTES = 64 * 1024


class Receiver:
    """Feeds bytes to a reader in pieces, as a socket would."""

    def __init__(
        self,
        scratch: memoryview,
        limit: int = LIMIT,
        allocate: Callable[[int], bytearray | memoryview] = bytearray,
    ) -> None:
        self.reader = FrameReader(limit, scratch)
        self.frames: list[Frame] = []
        self._allocate = allocate

    def receive(self, data: bytes, draw: random.Random, *, piece_bytes_max: int = 3 * SCRATCH_BYTES) -> None:
        while data:
            room = self.reader.room()
            piece = data[: min(len(room), draw.randint(1, piece_bytes_max))]
            room[: len(piece)] = piece
            data = data[len(piece) :]
            self.reader.received(len(piece))
            while (found := self.reader.next()) is not None:
                self.frames.append(found)
            if self.reader.error is not None:
                return
            if self.reader.large_bytes:
                self.reader.begin_large(self._allocate)


def random_frames(draw: random.Random) -> list[tuple[int, bytes]]:
    sizes = (0, 1, 5, 100, 5000, LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES, LARGE_BODY_BYTES + 1, 3 * LARGE_BODY_BYTES)
    return [(draw.randrange(1, 256), draw.randbytes(draw.choice(sizes))) for _ in range(draw.randint(1, 12))]


def test_frames_are_cut_out_of_bytes_in_any_pieces() -> None:
    draw = random.Random(drawn_seed())
    for _ in range(200):
        sent = random_frames(draw)
        receiver = Receiver(memoryview(bytearray(SCRATCH_BYTES)))
        data = PREAMBLE + b"".join(frame(kind, body) for kind, body in sent)
        receiver.receive(data, draw, piece_bytes_max=draw.choice((1000, SCRATCH_BYTES, 3 * SCRATCH_BYTES)))
        assert receiver.frames == sent
        assert not receiver.reader.has_bytes
        assert receiver.reader.bytes_held == 0


def test_readers_that_hold_what_they_have_share_a_scratch() -> None:
    draw = random.Random(drawn_seed())
    for _ in range(50):
        scratch = memoryview(bytearray(1000))
        receivers = [Receiver(scratch) for _ in range(3)]
        sent = [random_frames(draw) for _ in receivers]
        left = [PREAMBLE + b"".join(frame(kind, body) for kind, body in frames) for frames in sent]
        while any(left):
            number = draw.randrange(3)
            size = draw.randint(1, 1500)
            data, left[number] = left[number][:size], left[number][size:]
            receivers[number].receive(data, draw, piece_bytes_max=1500)
            receivers[number].reader.hold()
        assert [receiver.frames for receiver in receivers] == sent


def test_large_bodies_are_received_in_the_memory_that_was_made_for_them() -> None:
    draw = random.Random(drawn_seed())
    made: list[memoryview] = []

    def allocate(byte_count: int) -> memoryview:
        made.append(memoryview(bytearray(draw.randbytes(byte_count))))
        return made[-1]

    for _ in range(50):
        sent = random_frames(draw)
        receiver = Receiver(memoryview(bytearray(SCRATCH_BYTES)), allocate=allocate)
        receiver.receive(PREAMBLE + b"".join(frame(kind, body) for kind, body in sent), draw)
        assert receiver.frames == sent
        in_place = [body for _, body in receiver.frames if isinstance(body, memoryview)]
        assert all(body is memory for body, memory in zip(in_place, made, strict=True))
        made.clear()


def test_a_reader_knows_what_it_holds_of_a_frame() -> None:
    receiver = Receiver(memoryview(bytearray(SCRATCH_BYTES)))
    draw = random.Random(1)
    receiver.receive(PREAMBLE + frame(2, b"whole") + frame(3, b"x" * 100)[:60], draw)
    assert (receiver.reader.has_bytes, receiver.reader.bytes_held, receiver.reader.bytes_received) == (True, 60, 60)
    receiver = Receiver(memoryview(bytearray(SCRATCH_BYTES)))
    large = frame(2, b"x" * (2 * LARGE_BODY_BYTES))
    receiver.receive(PREAMBLE + large[:100], draw)
    assert (receiver.reader.bytes_held, receiver.reader.bytes_received) == (2 * LARGE_BODY_BYTES, 95)


@pytest.mark.parametrize("piece_bytes_max", [1, 100])
@pytest.mark.parametrize(
    "data",
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n", b"rowloc?", b"\0" * 8],
)
def test_the_first_wrong_byte_of_a_preamble_is_an_error(data: bytes, piece_bytes_max: int) -> None:
    receiver = Receiver(memoryview(bytearray(100)))
    receiver.receive(data, random.Random(1), piece_bytes_max=piece_bytes_max)
    assert type(receiver.reader.error) is FrameError
    assert receiver.frames == []


def test_another_version_is_an_error_of_its_own() -> None:
    receiver = Receiver(memoryview(bytearray(100)))
    receiver.receive(b"rowlock\x02" + frame(1, b""), random.Random(1))
    assert isinstance(receiver.reader.error, VersionError)


@pytest.mark.parametrize(("length", "known"), [(0, 0), (LIMIT + 2, LIMIT + 2), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_a_length_of_zero_or_beyond_the_limit_is_an_error_behind_the_frames_before_it(length: int, known: int) -> None:
    receiver = Receiver(memoryview(bytearray(100)))
    receiver.receive(PREAMBLE + frame(2, b"before") + HEAD.pack(length, 2) + b"more", random.Random(1))
    assert receiver.frames == [(2, b"before")]
    assert receiver.reader.error is not None
    assert receiver.reader.error.length == known
    assert receiver.reader.bytes_held < 100, "nothing is allocated for it"


def test_a_body_of_exactly_the_limit_is_received() -> None:
    receiver = Receiver(memoryview(bytearray(100)), limit=50)
    receiver.receive(PREAMBLE + frame(2, b"x" * 50) + frame(2, b"x" * 51), random.Random(1))
    assert receiver.frames == [(2, b"x" * 50)]
    assert receiver.reader.error is not None


def test_random_bytes_end_in_an_error_or_wait_for_more() -> None:
    draw = random.Random(drawn_seed())
    for _ in range(300):
        receiver = Receiver(memoryview(bytearray(1000)), limit=5000)
        data = bytearray(PREAMBLE + b"".join(frame(2, draw.randbytes(draw.randint(0, 300))) for _ in range(5)))
        for _ in range(draw.randint(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        receiver.receive(bytes(data), draw, piece_bytes_max=300)
        assert receiver.reader.bytes_held <= 5000
        assert all(len(body) <= 5000 for _, body in receiver.frames)
