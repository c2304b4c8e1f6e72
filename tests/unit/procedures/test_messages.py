"""Messages between the server and the process of a procedure."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock_regionserver.procedures.messages import BadMessageError, Channel, MessageKind, TooLongError


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, Channel(theirs)


@given(st.sampled_from(MessageKind), st.lists(st.none() | st.binary()))
def test_what_is_sent_is_received(kind: MessageKind, fields: list[bytes | None]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send(kind, fields)
        assert Channel(theirs).receive() == (kind, fields)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">IB", 0, 1),  # no kind
        struct.pack(">IB", 1, 99),  # an unknown one
        struct.pack(">IB", 3, 1) + b"\0\0",  # half a length
        struct.pack(">IBI", 5, 1, 3),  # a field that is not there
    ],
)
def test_bytes_that_are_no_message_are_refused(ends: tuple[socket.socket, Channel], data: bytes) -> None:
    sender, channel = ends
    sender.sendall(data)
    with pytest.raises(BadMessageError):
        channel.receive()


def test_a_message_that_is_too_long_is_refused_before_it_is_received(ends: tuple[socket.socket, Channel]) -> None:
    sender, channel = ends
    sender.sendall(struct.pack(">IB", 1 << 31, 1))
    with pytest.raises(TooLongError) as caught:
        channel.receive(1000)
    assert caught.value.byte_count == 1 << 31


def test_the_time_ends_in_the_middle_of_a_message(ends: tuple[socket.socket, Channel]) -> None:
    sender, channel = ends
    sender.sendall(struct.pack(">IB", 100, 1) + b"\0")
    left = iter([10.0, 10.0, 0.01, -1.0])
    with pytest.raises(TimeoutError):
        channel.receive(1000, lambda: next(left))


def test_no_message_begins_when_the_time_is_over(ends: tuple[socket.socket, Channel]) -> None:
    sender, channel = ends
    with pytest.raises(TimeoutError):
        channel.send(MessageKind.CALL, [b"x"], lambda: 0.0)
    sender.setblocking(False)
    with pytest.raises(BlockingIOError):
        sender.recv(1)


def test_the_end_of_the_other_side_is_an_end_of_file(ends: tuple[socket.socket, Channel]) -> None:
    sender, channel = ends
    sender.sendall(b"\0\0")
    sender.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        channel.receive()
