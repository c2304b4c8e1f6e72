"""Compressed rows of a scan: what the client makes of each form of a column, and what it does not believe."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import rowlock
import zstandard
from rowlock._codec import compressed_rows
from rowlock._codec.compressed_rows import decoded_rows

NONE, LZ4, ZSTD, ABSENT, TRANSPOSED = 0, 1, 2, 15, 16


class Message:
    """A message that is assembled by hand, as region.proto says."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count
        self.columns: list[bytes] = []
        self.pieces: list[bytes] = []
        self.data = bytearray()

    def column(
        self,
        *pieces: tuple[int, int, int, int, int, bytes, int],
        present: Sequence[bool] = (),
        changes: tuple[Sequence[int], tuple[int, int, int, int, int, bytes, int]] | None = None,
    ) -> Message:
        """Adds a column; a piece is lines, start, lines taken, width, compression, stored bytes, raw byte count."""
        for piece in pieces:
            self._piece(piece)
        bitmap = np.packbits(np.array(present, np.bool_), bitorder="little").tobytes()
        self._add(bitmap)
        if changes is not None:
            places, piece = changes
            self._add(struct.pack(f"<{len(places)}I", *places))
            self._piece(piece)
        self.columns.append(struct.pack("<4I", len(pieces), len(bitmap), len(changes[0]) if changes else 0, 0))
        return self

    def _piece(self, piece: tuple[int, int, int, int, int, bytes, int]) -> None:
        lines, start, taken, width, compression, stored, raw_bytes = piece
        self.pieces.append(struct.pack("<7I", lines, start, taken, width, compression, len(stored), raw_bytes))
        self._add(stored)

    def _add(self, part: bytes) -> None:
        self.data += part.ljust(-(-len(part) // 8) * 8, b"\0")

    def buffer(self) -> pa.Buffer:
        head = b"".join([struct.pack("<4I", self.row_count, len(self.columns), 0, 0), *self.columns, *self.pieces])
        return pa.py_buffer(head.ljust(-(-len(head) // 8) * 8, b"\0") + bytes(self.data))


def plain(raw: bytes, width: int) -> tuple[int, int, int, int, int, bytes, int]:
    count = len(raw) // width
    return (count, 0, count, width, NONE, raw, len(raw))


def variable(*values: bytes) -> bytes:
    ends = np.cumsum([0, *map(len, values)]).astype("<i4")
    return ends.tobytes() + b"".join(values)


def lz4(raw: bytes) -> bytes:
    compressed = pa.Codec("lz4").compress(raw, asbytes=True)
    assert isinstance(compressed, bytes)
    return compressed


KEYS = plain(b"r0r1r2", 2)


def decoded(message: Message, *, timestamps: int = 0) -> list[list[object]]:
    """Returns the columns after the keys, of which the last ones are timestamps."""
    count = len(message.columns) - 1
    keys, columns = decoded_rows(message.buffer(), [place >= count - timestamps for place in range(count)])
    assert keys.to_pylist() == [b"r0", b"r1", b"r2"]
    for column in columns:
        column.validate(full=True)
    return [column.to_pylist() for column in columns]


def test_values_of_one_length_are_decompressed_and_put_side_by_side() -> None:
    raw = b"aabbccddee"
    chunk = zstandard.ZstdCompressor().compress(raw)
    message = Message(3).column(KEYS).column((5, 3, 2, 2, ZSTD, chunk, 10), plain(b"zz", 2))
    assert decoded(message) == [[b"dd", b"ee", b"zz"]]


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_values_that_were_transposed_are_put_back(width: int) -> None:
    values = [bytes(range(line, line + width)) for line in (0, 40, 80, 120)]
    transposed = b"".join(bytes(value[place] for value in values) for place in range(width))
    stored = (4, 1, 3, width, LZ4 | TRANSPOSED, lz4(transposed), 4 * width)
    assert decoded(Message(3).column(KEYS).column(stored)) == [values[1:]]


def test_values_of_several_lengths_are_one_after_the_other() -> None:
    raw = variable(b"one", b"", b"three")
    message = Message(3).column(KEYS).column((3, 1, 2, 0, LZ4, lz4(raw), len(raw)), plain(b"xy", 2))
    assert decoded(message) == [[b"", b"three", b"xy"]]


def test_lines_without_a_cell_are_null() -> None:
    absent = (2, 0, 2, 0, ABSENT, b"", 0)
    message = Message(3).column(KEYS).column(absent, plain(b"aa", 2), present=[False, False, True])
    message.column(plain(b"aabbcc", 2), present=[True, False, True])
    raw = variable(b"one", b"", b"three")
    message.column((3, 0, 3, 0, NONE, raw, len(raw)), present=[False, True, True])
    assert decoded(message) == [[None, None, b"aa"], [b"aa", None, b"cc"], [None, b"", b"three"]]


def test_changes_replace_values_and_may_have_other_lengths() -> None:
    message = Message(3).column(KEYS)
    message.column(plain(b"aabbcc", 2), present=[True, False, True], changes=([0, 2], plain(b"xxyy", 2)))
    message.column(plain(b"aabbcc", 2), changes=([1], plain(b"long", 4)))
    assert decoded(message) == [[b"xx", None, b"yy"], [b"aa", b"long", b"cc"]]


def test_timestamps_are_numbers() -> None:
    message = Message(3).column(KEYS).column(plain(struct.pack("<3q", 7, 0, 9), 8), present=[True, False, True])
    message.column((3, 0, 3, 0, ABSENT, b"", 0), present=[False] * 3)
    assert decoded(message, timestamps=2) == [[7, None, 9], [None, None, None]]


def test_keys_may_be_left_out() -> None:
    keys, [column] = decoded_rows(Message(2).column().column(plain(b"aabb", 2)).buffer(), [False])
    assert (keys.to_pylist(), column.to_pylist()) == ([None, None], [b"aa", b"bb"])


@pytest.mark.parametrize(
    "message",
    [
        Message(3).column(KEYS),  # no column
        Message(3).column(KEYS).column(plain(b"aabb", 2)),
        Message(3).column(KEYS).column((3, 0, 3, 2, 3, b"aabbcc", 6)),
        Message(3).column(KEYS).column((3, 1, 3, 2, NONE, b"aabbcc", 6)),
        Message(3).column(KEYS).column((3, 0, 3, 2, NONE, b"aabbc", 6)),
        Message(3).column(KEYS).column((3, 0, 3, 2, NONE, b"aabbccd", 7)),
        Message(3).column(KEYS).column((3, 0, 3, 0, LZ4 | TRANSPOSED, lz4(variable(b"", b"", b"")), 16)),
        Message(3).column(KEYS).column((3, 0, 3, 0, NONE, struct.pack("<4i", 0, 3, 2, 3) + b"abc", 19)),
        Message(3).column(KEYS).column((3, 0, 3, 0, NONE, struct.pack("<4i", 0, 1, 2, 9) + b"abc", 19)),
        Message(3).column(KEYS).column((3, 0, 3, 2, LZ4, b"no frame", 6)),
        Message(3).column(KEYS).column((3, 0, 3, 2, ZSTD, zstandard.ZstdCompressor().compress(b"x" * 7), 6)),
        Message(3).column(KEYS).column((3, 0, 3, 1 << 29, LZ4, lz4(b""), 3 << 29)),
        Message(3).column(KEYS).column(plain(b"aabbcc", 2), present=[True] * 9),
        Message(3).column(KEYS).column(plain(b"aabbcc", 2), changes=([1, 1], plain(b"xxyy", 2))),
        Message(3).column(KEYS).column(plain(b"aabbcc", 2), changes=([3], plain(b"xx", 2))),
        Message(3).column(KEYS).column(plain(b"aabbcc", 2), changes=([1], plain(b"xxyy", 2))),
        Message(3).column(plain(b"r0r1r2", 2), present=[True, False, True]).column(plain(b"aabbcc", 2)),
        Message(1 << 31).column().column(((1 << 31), 0, 1 << 31, 0, ABSENT, b"", 0)),
    ],
)
def test_a_message_that_contradicts_itself_is_refused(message: Message) -> None:
    with pytest.raises(rowlock.ServerError, match="compressed rows"):
        decoded_rows(message.buffer(), [False])


def test_a_lack_of_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    message = Message(2).column().column(plain(b"aabb", 2)).buffer()
    monkeypatch.setattr(compressed_rows, "_decoded", no_memory)
    with pytest.raises(MemoryError, match="malloc"):
        decoded_rows(message, [False])


def test_no_damaged_message_is_a_crash_or_an_invalid_column() -> None:
    chance = random.Random(5)
    raw = variable(b"one", b"", b"three")
    message = Message(3).column(KEYS).column((5, 3, 2, 2, LZ4 | TRANSPOSED, lz4(b"abcdefghij"), 10), plain(b"zz", 2))
    message.column((3, 0, 3, 0, LZ4, lz4(raw), len(raw)), present=[True, False, True])
    message.column(plain(b"aabbcc", 2), changes=([0, 2], plain(b"xxyy", 2)))
    whole = message.buffer().to_pybytes()
    refused = 0
    for _ in range(20_000):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.choice([1, 1, 2, 5])):
            if damaged:
                place = chance.randrange(len(damaged))
                damaged[place] = chance.choice([damaged[place] ^ 1 << chance.randrange(8), 0, 255])
        try:
            _, columns = decoded_rows(pa.py_buffer(bytes(damaged)), [False, False, False])
        except rowlock.ServerError:
            refused += 1
        else:
            for column in columns:
                column.validate(full=True)
    assert refused > 5000
