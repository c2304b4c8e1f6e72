"""The hand-written parser of scan batches gives the same fields as protobuf."""

from __future__ import annotations

import random

import pytest
from google.protobuf.message import DecodeError
from rowlock._codec.scan_message import parse_scan_message
from rowlock_proto.v1.region_pb2 import ScanBatch


def check(data: bytes) -> None:
    """Checks that protobuf and the hand-written parser give the same fields."""
    expected = ScanBatch.FromString(data)
    for body in (data, bytearray(data), memoryview(data)):
        read = parse_scan_message(body)
        assert read.arrow.to_pybytes() == expected.arrow
        assert (read.row_continues, read.read_point, read.row_count, read.row_reached) == (
            expected.row_continues,
            expected.read_point,
            expected.row_count,
            expected.row_reached,
        )


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000, 3_000_000])
def test_fields_are_those_of_the_message(length: int) -> None:
    check(
        ScanBatch(arrow=bytes(length), row_continues=True, read_point=(1 << 64) - 1, row_count=300).SerializeToString()
    )
    check(ScanBatch(arrow=b"x" * length).SerializeToString())


def test_fields_come_in_any_order_and_more_than_once() -> None:
    one = ScanBatch(arrow=b"first", read_point=5).SerializeToString()
    other = ScanBatch(arrow=b"second", row_count=7).SerializeToString()
    last = ScanBatch(row_continues=True, row_count=8, row_reached=b"row").SerializeToString()
    check(one + other + last)
    check(last + other + one)
    check(b"")


@pytest.mark.parametrize("unknown", [b"\x78\x96\x01", b"\x79" + bytes(8), b"\x7a\x03abc", b"\x7d" + bytes(4)])
def test_fields_of_later_versions_are_passed_over(unknown: bytes) -> None:
    check(unknown + ScanBatch(arrow=b"arrow", row_count=1).SerializeToString() + unknown)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abc", b"\x80", b"\x78", b"\x0e\x01", b"\xff" * 20, b"\x79abc"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        ScanBatch.FromString(data)
    with pytest.raises(DecodeError):
        parse_scan_message(data)


def test_arrow_bytes_are_not_copied() -> None:
    data = ScanBatch(arrow=b"x" * 1000, row_count=1).SerializeToString()
    at = data.index(b"x")
    assert memoryview(parse_scan_message(data).arrow) == memoryview(data)[at : at + 1000]


def test_random_bytes_never_end_otherwise() -> None:
    generator = random.Random(5)
    good = ScanBatch(arrow=b"abc", row_continues=True, read_point=300, row_count=2).SerializeToString()
    for _ in range(2000):
        data = bytearray(good)
        data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            ScanBatch.FromString(bytes(data))
        except DecodeError:
            continue
        check(bytes(data))
