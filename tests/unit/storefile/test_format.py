"""Headers, keys, metadata and the Bloom filter round-trip, and damaged ones are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile import bloom, metadata
from rowlock_regionserver.storefile.format import (
    BLOCK_MAGIC,
    HEADER_BYTES,
    KEY_PREFIX_BYTES_MAX,
    Header,
    block_key,
    sealed,
    unpack_header,
)
from rowlock_regionserver.storefile.index import BlockIndex

PATH = Path("store-1")

_NAMES = st.one_of(st.binary(max_size=4), st.sampled_from([b"", b"\0", b"\0\xff", b"a" * 480, b"a" * 600]))
_PLACES = st.tuples(_NAMES, _NAMES, st.integers(0, (1 << 63) - 2), st.integers(1, (1 << 63) - 1))


def test_a_header_comes_back() -> None:
    header = Header(BLOCK_MAGIC, 7, 1 << 40, 12, 0xDEADBEEF)
    assert len(header.pack()) == HEADER_BYTES
    assert unpack_header(header.pack(), PATH, 0) == header


@pytest.mark.parametrize("bit", range(0, HEADER_BYTES * 8, 7))
def test_a_header_with_a_flipped_bit_is_refused(bit: int) -> None:
    raw = bytearray(Header(BLOCK_MAGIC, 7, 100, 12, 0xDEADBEEF).pack())
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptionError) as refusal:
        unpack_header(bytes(raw), PATH, 640)
    assert refusal.value.offset == 640


def test_a_short_payload_is_padded_and_the_padding_is_sealed_too() -> None:
    header, value = sealed(BLOCK_MAGIC, 0, 1, b"abc", 5000)
    assert len(value) == 5000
    assert header.payload_bytes == 5000 - HEADER_BYTES
    assert unpack_header(value, PATH, 0) == header


@given(_PLACES, _PLACES, st.integers(0, 1 << 40))
@settings(deadline=None)
def test_keys_of_blocks_sort_as_their_first_cells_do(
    first: tuple[bytes, bytes, int, int], second: tuple[bytes, bytes, int, int], number: int
) -> None:
    before, after = sorted([first, second], key=lambda place: (place[0], place[1], -place[2], -place[3]))
    first_key, second_key = block_key(*before, number), block_key(*after, number + 1)
    assert first_key < second_key
    assert max(len(first_key), len(second_key)) <= KEY_PREFIX_BYTES_MAX + 8


_INDEX = BlockIndex([16, 8208], [8000, 9000], [3, 4], [1, (1 << 32) - 1], [b"a", b"b\0"], [b"b\0", b""])


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, (1 << 63) - 1)), max_size=20), st.data())
@settings(deadline=None)
def test_metadata_comes_back(blocks: list[tuple[bytes, int]], data: st.DataObject) -> None:
    rows = sorted(row for row, _ in blocks)
    numbers = [number for _, number in blocks]
    index = BlockIndex(numbers, numbers, numbers, numbers, rows, rows)
    words = bloom.build(bloom.row_hashes(data.draw(st.lists(st.binary(min_size=1), max_size=20))))
    made = metadata.Metadata({"block_count": len(blocks), "first_row": "ff"}, words, index)
    found = metadata.decode(metadata.encode(made), PATH, 0)
    assert (found.summary, found.index) == (made.summary, made.index)
    assert found.bloom_words.tolist() == words.tolist()


def _rows_out_of_order(payload: bytes) -> bytes:
    return payload[:-1] + b"\0"


def _cut(payload: bytes) -> bytes:
    return payload[:-10]


def _not_json(payload: bytes) -> bytes:
    return payload[:4] + b"[" + payload[5:]


def _endless_summary(payload: bytes) -> bytes:
    return b"\xff\xff\xff\xff" + payload[4:]


@pytest.mark.parametrize("change", [_rows_out_of_order, _cut, _not_json, _endless_summary, lambda _: b""])
def test_metadata_that_makes_no_sense_is_a_corruption(change) -> None:  # type: ignore[no-untyped-def]  # one call below
    index = replace(_INDEX, last_rows=[b"b\0", b"c"])
    words = bloom.build(bloom.row_hashes([]))
    payload = metadata.encode(metadata.Metadata({"block_count": 2}, words, index))
    assert metadata.decode(payload, PATH, 0).index == index
    with pytest.raises(CorruptionError):
        metadata.decode(change(payload), PATH, 0)


@pytest.mark.parametrize("row_count", [0, 1, 3, 100, 20_000])
def test_the_bloom_filter_passes_every_row_and_about_one_absent_row_in_a_hundred(row_count: int) -> None:
    chance = random.Random(row_count)
    rows = [chance.randbytes(chance.randrange(1, 30)) + b"!" for _ in range(row_count)]
    words = bloom.build(bloom.row_hashes(rows)).data
    assert all(bloom.may_hold(words, row) for row in rows)
    absent = [b"%d?" % number for number in range(10_000)]
    passed = sum(bloom.may_hold(words, row) for row in absent)
    assert passed <= 10_000 * 0.01
    if row_count == 20_000:
        assert passed > 0
        assert len(words) * 64 <= row_count * 16 + 64
