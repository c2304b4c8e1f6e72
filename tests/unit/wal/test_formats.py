"""Records, segment headers and markers: what is written is read, and anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.wal.marker import (
    Marker,
    RegionState,
    decode_marker,
    decode_reservation,
    encode_reservation,
)
from rowlock_regionserver.wal.reader import cut_run, find_runs, read_run, unpack_records
from rowlock_regionserver.wal.record import Position, Record, checksum_of, encode_record, record_size, segment_seed
from rowlock_regionserver.wal.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    segment_number,
    segment_path,
)

from tests.seeds import generator_of

LOG_ID = bytes(range(16))
SEED = segment_seed(LOG_ID, 3)
PATH = Path("0000000003.wal")


def encoded(offset: int, payload: bytes, seed: int = SEED, durable: Position = Position(2, 100)) -> bytes:  # noqa: B008
    return encode_record(seed, offset, 7, 12, 11, durable, 1, payload)


@pytest.mark.parametrize("payload_bytes", [0, 1, 6, 7, 8, 9, 100, 70_000])
def test_a_record_is_read_as_it_was_written(payload_bytes: int) -> None:
    payload = bytes(index % 251 for index in range(payload_bytes))
    data = bytes(64) + encoded(64, payload)
    assert len(data) - 64 == record_size(payload_bytes)
    assert len(data) % 8 == 0
    run = read_run(data, 64, len(data), SEED)
    assert (run.start, run.stop, run.proven) == (64, len(data), Position(2, 100))
    assert list(unpack_records(cut_run(data, run, 60, SEED))) == [Record(7, 12, 11, 1, payload)]
    assert cut_run(data, run, 65, SEED) == b""


def test_a_run_is_cut_at_the_first_record_that_begins_at_or_after_a_place() -> None:
    data = bytes(64)
    starts = []
    for number in range(4):
        starts.append(len(data))
        data += encoded(len(data), b"%d" % number)
    run = read_run(data, 64, len(data), SEED)
    for first, start in enumerate(starts):
        for place in (start, start - 1, start - 8, start - 40):
            assert cut_run(data, run, place, SEED) == data[start:], f"record {first}, cut at {place - start}"
    for place in (starts[-1] + 1, len(data), len(data) + 8):
        assert cut_run(data, run, place, SEED) == b""


def test_every_flipped_bit_of_a_record_makes_it_invalid_also_in_the_padding() -> None:
    record = encoded(64, b"payload of this record")
    for bit in range(len(record) * 8):
        data = bytearray(bytes(64) + record)
        data[64 + bit // 8] ^= 1 << bit % 8
        assert read_run(bytes(data), 64, len(data), SEED).stop == 64, f"bit {bit}"


def test_a_record_is_valid_only_at_its_own_place_of_its_own_segment_of_its_own_log() -> None:
    record = encoded(64, b"x")
    for offset, seed in [(72, SEED), (64, segment_seed(LOG_ID, 4)), (64, segment_seed(bytes(16), 3))]:
        data = bytes(offset) + record
        assert read_run(data, offset, len(data), seed).stop == offset


def test_kind_zero_is_no_record_even_with_a_good_checksum() -> None:
    # So zeros are never a record, whatever their checksum happens to be.
    data = bytes(64) + encode_record(SEED, 64, 0, 0, 0, Position(1, 0), 0, b"")
    assert read_run(data, 64, len(data), SEED).stop == 64


def test_records_behind_bad_bytes_are_found_and_copies_inside_values_are_not() -> None:
    data = bytearray(64)
    stops = []
    for number in range(6):
        # The value holds a copy of all that is before it.
        data += encoded(len(data), bytes(data) + b"%d" % number)
        stops.append(len(data))
    start = stops[1]
    data[start + 50] ^= 1
    bad = bytes(data)
    assert read_run(bad, 64, len(bad), SEED).stop == start
    runs = find_runs(bad, start + 8, len(bad), SEED, 3)
    assert [(run.start, run.stop) for run in runs] == [(stops[2], stops[5])]


def test_the_search_finds_the_same_as_a_walk_over_each_offset() -> None:
    for seed_number in range(30):
        chance = generator_of(seed_number)
        data = bytearray(64)
        for _ in range(20):
            if chance.random() < 0.4:
                data += chance.randbytes(8 * chance.randint(1, 20))
            else:
                data += encoded(len(data), chance.randbytes(chance.randint(0, 90)))
        image = bytes(data) + bytes(chance.randint(0, 100))
        plain = []
        offset = 64
        while offset < len(image):
            run = read_run(image, offset, len(image), SEED)
            if run.stop > offset:
                plain.append(run)
            offset = max(run.stop, offset + 8)
        assert find_runs(image, 64, len(image), SEED, 3) == plain, f"seed {seed_number}"


def test_the_search_crosses_its_own_windows() -> None:
    data = bytearray(64) + b"\xff" * 80
    first = len(data)
    data += encoded(first, b"one" * 30)
    data += b"\xff" * 56
    second = len(data)
    data += encoded(second, b"two")
    for search_offsets in range(1, 40):
        runs = find_runs(bytes(data), 64, len(data), SEED, 3, search_offsets=search_offsets)
        assert [run.start for run in runs] == [first, second], search_offsets


def test_a_segment_header_is_read_as_it_was_written() -> None:
    header = SegmentHeader(3, LOG_ID, 2, 4096)
    assert len(header.encode()) == SEGMENT_HEADER_BYTES == 64
    assert decode_segment_header(PATH, header.encode()) == header


def test_every_flipped_bit_of_a_segment_header_is_named() -> None:
    encoded_header = SegmentHeader(3, LOG_ID, 2, 4096).encode()
    for bit in range(len(encoded_header) * 8):
        data = bytearray(encoded_header)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError) as damage:
            decode_segment_header(PATH, bytes(data))
        assert damage.value.path == PATH


def test_a_short_segment_is_named() -> None:
    with pytest.raises(CorruptionError, match="63 bytes"):
        decode_segment_header(PATH, bytes(63))


def test_a_segment_of_another_format_version_says_so() -> None:
    data = bytearray(SegmentHeader(3, LOG_ID, 2, 4096).encode())
    data[8] = 5
    data[60:64] = checksum_of(bytes(data[:60])).to_bytes(4, "little")
    with pytest.raises(DataFolderError, match="format 5"):
        decode_segment_header(PATH, bytes(data))


def test_segments_are_recognised_by_their_names() -> None:
    assert segment_number(segment_path(Path("log"), 12).name) == 12
    for name in ["spare.wal", "0000000012.damaged", "12.wal", "0000000012.wal.bak", "x"]:
        assert segment_number(name) is None


def test_a_marker_is_read_as_it_was_written() -> None:
    for marker in [
        Marker({}),
        Marker({}, is_incomplete=True),
        Marker({3: RegionState(1, 2, 3), 1: RegionState(2**63, 2**62, 0)}),
    ]:
        assert decode_marker(marker.encode(), 2) == marker


@pytest.mark.parametrize(
    "payload",
    [b"", bytes(7), bytes(9), b"\x02" + bytes(7), bytes(4) + b"\x01" + bytes(34), bytes(4) + b"\xff" * 4 + bytes(32)],
)
def test_an_invalid_marker_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="marker"):
        decode_marker(payload, 2)


def test_a_reservation_is_read_as_it_was_written_and_anything_else_refused() -> None:
    assert decode_reservation(encode_reservation(5, 2**40)) == (5, 2**40)
    with pytest.raises(ValueError, match="15 bytes"):
        decode_reservation(bytes(15))
