"""A direct connection of threads: who reads and who sends, when a caller leaves, and what is there in part."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest
from rowlock._core import point
from rowlock._core.conversation import Conversation, Request
from rowlock._transport import channels, direct
from rowlock._transport.direct import DirectConnection
from rowlock.errors import ClosedError, LimitExceededError, ServerError, ServerUnavailableError
from rowlock_proto.direct_frames import ANSWERS, END, PONG, frame
from rowlock_proto.v1 import types_pb2

from tests.threads import is_at
from tests.unit.client.direct_server import BODY_BYTES_MAX, LONG_S, Call, DirectServer
from tests.waiting import WAIT_S, wait_until

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller is woken, or waits for minutes: so each test fails if it must be saved by a caller that looks."""
    monkeypatch.setattr(direct, "_LOOK_S", 600.0)


@pytest.fixture
def server() -> Iterator[DirectServer]:
    server = DirectServer()
    yield server
    assert server.connection.statistics().repaired_count == 0
    server.close()


@pytest.fixture
def narrow() -> Iterator[DirectServer]:
    """With small buffers, so that large frames are sent in many parts."""
    server = DirectServer(buffer_bytes=4096)
    yield server
    assert server.connection.statistics().repaired_count == 0
    server.close()


def reader_of(*calls: Call) -> Call:
    """Waits until one of the calls reads, and returns it. No section is open then."""
    wait_until(lambda: any(call.is_reader and is_at(call.thread, "channel.poll(") for call in calls))
    return next(call for call in calls if call.is_reader)


def interrupt(thread: threading.Thread) -> None:
    """Raises KeyboardInterrupt in the thread, when it next runs Python code."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))


def test_a_single_caller_needs_no_other_thread(server: DirectServer) -> None:
    before = set(threading.enumerate())  # Those of earlier tests may end meanwhile.
    call = Call(server, b"a")
    server.read_until(b"a")
    assert set(threading.enumerate()) - before == {call.thread}
    server.socket.sendall(server.answer(b"a"))
    assert call.ended() == b"a"
    assert server.connection.statistics().handed_on_count == 0


def test_one_caller_reads_for_all(server: DirectServer) -> None:
    calls = [Call(server, b"%d" % number) for number in range(5)]
    server.read_until(*(call.row for call in calls))
    reader = reader_of(*calls)
    for call in calls:
        if call is not reader:
            server.socket.sendall(server.answer(call.row))
            assert call.ended() == call.row
    assert reader.is_reader
    assert server.connection.statistics().handed_on_count == 0
    server.socket.sendall(server.answer(reader.row))
    assert reader.ended() == reader.row


def test_a_reader_that_is_answered_makes_another_caller_the_reader(server: DirectServer) -> None:
    calls = [Call(server, b"%d" % number) for number in range(5)]
    server.read_until(*(call.row for call in calls))
    while calls:
        reader = reader_of(*calls)
        server.socket.sendall(server.answer(reader.row))
        assert reader.ended() == reader.row
        calls.remove(reader)
    assert server.connection.statistics().handed_on_count == 4


def test_a_reader_that_gives_up_at_its_deadline_makes_another_caller_the_reader(server: DirectServer) -> None:
    hasty = Call(server, b"hasty", 0.2)
    reader_of(hasty)
    patient = Call(server, b"patient")
    server.read_until(b"hasty", b"patient")
    assert hasty.ended() is None
    reader_of(patient)
    server.socket.sendall(server.answer(b"hasty", b"patient"))
    assert patient.ended() == b"patient"
    assert server.connection.statistics().conversation.answers_without_request == 1


def test_half_a_frame_stays_when_its_reader_gives_up(server: DirectServer) -> None:
    hasty = Call(server, b"hasty", 0.2)
    reader_of(hasty)
    patient = Call(server, b"patient")
    server.read_until(b"hasty", b"patient")
    answer = server.answer(b"patient")
    server.socket.sendall(answer[:9])
    assert hasty.ended() is None
    server.socket.sendall(answer[9:])
    assert patient.ended() == b"patient"


def test_half_a_large_frame_stays_when_its_reader_gives_up(server: DirectServer) -> None:
    hasty = Call(server, b"hasty", 0.3)
    reader_of(hasty)
    name = b"n" * MIB
    patient = Call(server, name)
    server.read_until(b"hasty", name)
    answer = server.answer(name)
    sending = threading.Thread(target=server.socket.sendall, args=(answer[: MIB // 2],))
    sending.start()
    assert hasty.ended() is None
    sending.join()
    server.socket.sendall(answer[MIB // 2 :])
    assert patient.ended() == name


@pytest.mark.parametrize("is_reader", [True, False])
def test_a_keyboard_interrupt_ends_its_own_call_and_no_other(server: DirectServer, is_reader: bool) -> None:
    """The main thread waits, for the socket or for the reader, and gets the signal."""
    first = None if is_reader else Call(server, b"first")
    if first is not None:
        reader_of(first)
    others: list[Call] = []

    def interrupt_when_sent() -> None:
        server.read_until(b"main")
        others.extend(Call(server, b"%d" % number) for number in range(3))
        server.read_until(*(call.row for call in others))
        # An interruption while it sends would end the connection.
        waits = "channel.poll(" if is_reader else "waiting.lock.acquire("
        wait_until(lambda: is_at(threading.main_thread(), waits))
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt_when_sent)
    interrupter.start()
    request = point.get("t", [b"main"], None)
    with pytest.raises(KeyboardInterrupt):
        server.connection.call(request, 1, time.monotonic() + 60)
    interrupter.join()
    waiting = [*others, *([first] if first is not None else [])]
    server.socket.sendall(server.answer(b"main", *(call.row for call in waiting)))
    for call in waiting:
        assert call.ended() == call.row
    assert not server.connection.is_over


def test_a_thread_that_dies_while_it_reads_makes_another_caller_the_reader(server: DirectServer) -> None:
    """SystemExit, as a killed worker thread gets it; it arrives when the thread runs again."""
    dying = Call(server, b"dying")
    reader_of(dying)
    other = Call(server, b"other")
    server.read_until(b"dying", b"other")
    assert dying.thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(dying.thread.ident), ctypes.py_object(SystemExit))
    server.socket.sendall(frame(PONG, b""))  # It wakes.
    with pytest.raises((SystemExit, ServerUnavailableError)):
        dying.ended()
    if not server.connection.is_over:  # It was interrupted while it waited, and not while it received.
        server.socket.sendall(server.answer(b"other"))
        assert other.ended() == b"other"
    else:
        with pytest.raises(ServerUnavailableError):
            other.ended()


# Sending


def test_a_frame_that_the_system_does_not_take_at_once_is_sent_when_there_is_room(narrow: DirectServer) -> None:
    call = Call(narrow, b"a", padding=MIB)
    narrow.read_until(b"a")
    narrow.socket.sendall(narrow.answer(b"a"))
    assert call.ended() == b"a"


def test_a_reader_that_waits_for_answers_sends_what_another_caller_could_not(narrow: DirectServer) -> None:
    narrow.socket.settimeout(min(20.0, WAIT_S))  # The reader wakes by itself after 30 s, to send a ping.
    reader = Call(narrow, b"reader")
    narrow.read_until(b"reader")
    reader_of(reader)
    large = Call(narrow, b"large", padding=MIB)
    small = Call(narrow, b"small")
    narrow.read_until(b"large", b"small")
    narrow.socket.sendall(narrow.answer(b"large", b"small", b"reader"))
    assert [call.ended() for call in (reader, large, small)] == [b"reader", b"large", b"small"]


def test_a_client_that_can_not_send_reads(narrow: DirectServer) -> None:
    """Else both sides would wait for each other: the server reads no requests while its answers are not read."""
    name = b"n" * (MIB // 2)
    first = Call(narrow, name)
    narrow.read_until(name)
    large = Call(narrow, b"large", padding=MIB)
    wait_until(lambda: narrow.connection._channel.unsent is not None)
    narrow.socket.sendall(narrow.answer(name))
    assert first.ended() == name
    narrow.read_until(b"large")
    narrow.socket.sendall(narrow.answer(b"large"))
    assert large.ended() == b"large"


def test_a_frame_that_is_sent_in_part_is_completed_when_its_sender_gives_up(narrow: DirectServer) -> None:
    hasty = Call(narrow, b"hasty", 0.3, padding=MIB)
    wait_until(lambda: narrow.connection._channel.unsent is not None)
    patient = Call(narrow, b"patient")
    assert hasty.ended() is None
    narrow.read_until(b"hasty", b"patient")
    narrow.socket.sendall(narrow.answer(b"patient"))
    assert patient.ended() == b"patient"


def test_a_frame_that_is_sent_in_part_is_completed_by_a_later_caller(narrow: DirectServer) -> None:
    hasty = Call(narrow, b"hasty", 0.2, padding=MIB)
    assert hasty.ended() is None
    later = Call(narrow, b"later")
    narrow.read_until(b"hasty", b"later")
    narrow.socket.sendall(narrow.answer(b"later"))
    assert later.ended() == b"later"


def test_what_waits_together_travels_together(server: DirectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While some requests are in flight, the next ones wait for one another for a moment."""
    # So long that the other threads get their turn on any machine.
    monkeypatch.setattr("rowlock._transport.direct.COALESCE_WAIT_S", 0.5)
    first = [Call(server, b"first%d" % number) for number in range(16)]
    server.read_until(*(call.row for call in first))
    later = [Call(server, b"later%d" % number) for number in range(64)]
    server.read_until(*(call.row for call in later))
    server.socket.sendall(server.answer(*(call.row for call in (*first, *later))))
    for call in (*first, *later):
        assert call.ended() == call.row
    assert sum(server.message_sizes) == 80
    assert len(server.message_sizes) < 60


def test_a_request_beyond_the_limit_fails_alone_and_unsent(server: DirectServer) -> None:
    other = Call(server, b"other")
    server.read_until(b"other")
    large = Call(server, b"large", padding=BODY_BYTES_MAX)
    with pytest.raises(LimitExceededError, match="request_bytes_max = 8388608 of the server at server") as caught:
        large.ended()
    assert caught.value.found > BODY_BYTES_MAX
    assert not large.request.is_in_doubt
    server.socket.sendall(server.answer(b"other"))
    assert other.ended() == b"other"


# Ends


def test_a_server_that_closes_the_connection_fails_all_as_in_doubt(server: DirectServer) -> None:
    calls = [Call(server, b"%d" % number) for number in range(3)]
    server.read_until(*(call.row for call in calls))
    server.socket.close()
    for call in calls:
        with pytest.raises(ServerUnavailableError, match="the connection to target was lost"):
            call.ended()
        assert call.request.is_in_doubt
    assert server.connection.is_over
    request = point.get("t", [b"row"], None)
    assert not server.connection.call(request, 1, time.monotonic() + 60)
    assert not request.sent


def test_a_request_that_was_not_sent_as_a_whole_is_not_in_doubt(narrow: DirectServer) -> None:
    small, large = Call(narrow, b"small"), Call(narrow, b"large", padding=MIB)
    narrow.read_until(b"small")
    wait_until(lambda: narrow.connection._channel.unsent is not None)
    narrow.socket.close()
    for call in (small, large):
        with pytest.raises(ServerUnavailableError):
            call.ended()
    assert small.request.is_in_doubt
    assert not large.request.is_in_doubt


def test_a_connection_that_was_closed_while_it_was_idle_is_found_before_anything_is_sent(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_IDLE_S", -1.0)
    server.socket.sendall(frame(END, types_pb2.Error(code=types_pb2.Error.SERVER_STOPPING).SerializeToString()))
    server.socket.shutdown(socket.SHUT_WR)
    request = point.get("t", [b"row"], None)
    assert not server.connection.call(request, 1, time.monotonic() + 60)
    assert server.connection.is_over


def test_the_error_of_the_end_is_that_of_its_requests(server: DirectServer) -> None:
    call = Call(server, b"a")
    server.read_until(b"a")
    error = types_pb2.Error(code=types_pb2.Error.SERVER_STOPPING, message="it stops")
    server.socket.sendall(frame(END, error.SerializeToString()))
    with pytest.raises(ServerUnavailableError, match="it stops"):
        call.ended()


@pytest.mark.parametrize("sent", [frame(77, b""), frame(ANSWERS, b"\xff\xff"), frame(END, b"\xff"), bytes(5)])
def test_nonsense_from_the_server_ends_the_connection(server: DirectServer, sent: bytes) -> None:
    call = Call(server, b"a")
    server.read_until(b"a")
    server.socket.sendall(sent)
    with pytest.raises((ServerError, ServerUnavailableError)):
        call.ended()
    assert call.request.is_in_doubt


def test_closing_the_client_ends_waiting_calls(server: DirectServer) -> None:
    calls = [Call(server, b"%d" % number) for number in range(3)]
    server.read_until(*(call.row for call in calls))
    server.connection.close()
    server.connection.close()
    for call in calls:
        with pytest.raises(ClosedError):
            call.ended()
    assert server.socket.recv(1) == b""


def test_a_child_of_a_fork_closes_its_copy_without_ending_the_connection(server: DirectServer) -> None:
    call = Call(server, b"a")
    server.read_until(b"a")
    pid = os.fork()
    if not pid:
        try:
            server.connection.forget()
            request = point.get("t", [b"child"], None)
            os._exit(int(server.connection.call(request, 1, time.monotonic() + 1)))
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    server.socket.sendall(server.answer(b"a"))
    assert call.ended() == b"a"


def test_the_files_of_a_connection_are_closed_on_exec(server: DirectServer) -> None:
    channel = server.connection._channel
    for descriptor in (channel._socket.fileno(), channel._woken, channel._waker):
        assert not os.get_inheritable(descriptor)


# Silence


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "KEEPALIVE_MS", 50)
    monkeypatch.setattr(channels, "KEEPALIVE_TIMEOUT_MS", 400)


@pytest.mark.usefixtures("impatient")
def test_a_silent_server_is_asked_for_a_sign_of_life(server: DirectServer) -> None:
    call = Call(server, b"a")
    server.read_until(b"a")
    for count in range(1, 4):
        while server.pings < count:
            server.read()
        server.socket.sendall(frame(PONG, b""))
    server.socket.sendall(server.answer(b"a"))
    assert call.ended() == b"a"


@pytest.mark.usefixtures("impatient")
def test_a_server_without_a_sign_of_life_loses_its_requests(server: DirectServer) -> None:
    calls = [Call(server, b"%d" % number) for number in range(3)]
    for call in calls:
        with pytest.raises(ServerUnavailableError, match="does not answer a ping"):
            call.ended()
        assert call.request.is_in_doubt


# Requests that arrive while another thread is in a section


class Section:
    """A section of the call of one row, open from its next message on until `end`."""

    def __init__(self, server: DirectServer, monkeypatch: pytest.MonkeyPatch, row: bytes) -> None:
        self._connection = server.connection
        self._may_end = threading.Event()
        next_message = Conversation.next_message

        def held(conversation: Conversation) -> bytes | None:
            if threading.current_thread().name == f"call {row!r}":
                assert self._may_end.wait(WAIT_S)
            return next_message(conversation)

        monkeypatch.setattr(Conversation, "next_message", held)
        self.call = Call(server, row)
        wait_until(lambda: server.connection._entered_by == self.call.thread.ident)

    def end(self) -> None:
        self._may_end.set()

    def end_and_wait(self) -> None:
        self.end()
        wait_until(lambda: not self._connection._entered_by)

    def arrived(self, server: DirectServer, *rows: bytes) -> list[Call]:
        """Makes calls of these rows, which wait for the section."""
        # Their deadlines are beyond the test's, so it fails if one of them is not woken.
        calls = [Call(server, row, 2 * LONG_S) for row in rows]
        wait_until(lambda: len(self._connection._arrivals) == len(rows))
        wait_until(lambda: all(is_at(call.thread, "waiting.lock.acquire(") for call in calls))
        return calls


def test_what_arrives_during_a_section_is_sent_when_it_ends(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.socket.settimeout(min(20.0, WAIT_S))
    section = Section(server, monkeypatch, b"section")
    calls = [section.call, *section.arrived(server, b"a", b"b", b"c")]
    section.end()
    server.read_until(*(call.row for call in calls))
    server.socket.sendall(server.answer(*(call.row for call in calls)))
    assert [call.ended() for call in calls] == [b"section", b"a", b"b", b"c"]


def test_many_that_arrive_during_a_section_travel_together(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.socket.settimeout(min(20.0, WAIT_S))
    section = Section(server, monkeypatch, b"section")
    rows = [b"%d" % number for number in range(32)]
    calls = [section.call, *section.arrived(server, *rows)]
    section.end()
    server.read_until(*(call.row for call in calls))
    server.socket.sendall(server.answer(*(call.row for call in calls)))
    assert [call.ended() for call in calls] == [b"section", *rows]
    assert len(server.message_sizes) < 5


def test_what_arrives_when_a_section_has_just_ended_is_sent_by_its_caller(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The section ends after the caller has seen that it is open, and looks for arrivals before there is one."""
    server.socket.settimeout(min(20.0, WAIT_S))
    section = Section(server, monkeypatch, b"section")

    class Late(deque[Request]):
        def append(self, request: Request) -> None:
            section.end_and_wait()
            super().append(request)

    server.connection._arrivals = Late()
    late = Call(server, b"late")
    server.read_until(b"section", b"late")
    server.socket.sendall(server.answer(b"section", b"late"))
    assert (section.call.ended(), late.ended()) == (b"section", b"late")


def test_what_arrives_during_the_last_section_fails_unsent(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = Section(server, monkeypatch, b"section")
    calls = section.arrived(server, b"a", b"b")
    server.connection._channel.lose("a test")
    section.end()
    for call in calls:
        with pytest.raises(ServerUnavailableError, match="a test"):
            call.ended()
        assert not call.request.is_in_doubt


def test_what_arrives_and_is_too_large_fails_alone(server: DirectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.socket.settimeout(min(20.0, WAIT_S))
    section = Section(server, monkeypatch, b"section")
    (small,) = section.arrived(server, b"small")
    large = Call(server, b"large", padding=BODY_BYTES_MAX)
    wait_until(lambda: len(server.connection._arrivals) == 2)
    section.end()
    with pytest.raises(LimitExceededError):
        large.ended()
    server.read_until(b"section", b"small")
    server.socket.sendall(server.answer(b"section", b"small"))
    assert (section.call.ended(), small.ended()) == (b"section", b"small")


# Interruptions within sections


def interrupted_once(monkeypatch: pytest.MonkeyPatch, name: str, row: bytes) -> None:
    """Makes a method of the conversation raise KeyboardInterrupt when the call of this row has called it."""
    method = getattr(Conversation, name)

    def interrupted(conversation: Conversation, *arguments: object) -> object:
        if threading.current_thread().name != f"call {row!r}":
            return method(conversation, *arguments)
        monkeypatch.setattr(Conversation, name, method)
        method(conversation, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Conversation, name, interrupted)


@pytest.mark.parametrize("name", ["submit", "next_message"])
def test_an_interruption_while_a_thread_sends_breaks_the_connection(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    waiting = Call(server, b"waiting")
    server.read_until(b"waiting")
    reader_of(waiting)
    interrupted_once(monkeypatch, name, b"interrupted")
    with pytest.raises(KeyboardInterrupt):
        Call(server, b"interrupted").ended()
    with pytest.raises(ServerUnavailableError, match="interrupted"):
        waiting.ended()
    assert waiting.request.is_in_doubt


def test_an_interruption_while_a_thread_receives_breaks_the_connection(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Call(server, b"reader")
    reader_of(reader)
    waiting = Call(server, b"waiting")
    server.read_until(b"reader", b"waiting")
    interrupted_once(monkeypatch, "answered", b"reader")
    server.socket.sendall(server.answer(b"reader"))
    with pytest.raises(KeyboardInterrupt):
        reader.ended()
    with pytest.raises(ServerUnavailableError):
        waiting.ended()


def test_a_signal_handler_that_calls_during_a_section_of_its_thread_uses_another_connection(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_sent: list[bool] = []
    next_message = Conversation.next_message

    def handled(conversation: Conversation) -> bytes | None:
        monkeypatch.setattr(Conversation, "next_message", next_message)
        request = point.get("t", [b"handler"], None)
        was_sent.append(server.connection.call(request, 1, time.monotonic() + 60))
        return next_message(conversation)

    monkeypatch.setattr(Conversation, "next_message", handled)
    with pytest.raises(ServerUnavailableError, match="interrupted"):
        Call(server, b"outer").ended()
    assert was_sent == [False]


def test_callers_make_up_for_a_reader_that_left_without_a_word(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second interruption, while the first one is dealt with."""
    monkeypatch.setattr(direct, "_LOOK_S", 0.05)
    monkeypatch.setattr(direct, "_LIFELESS_S", 0.3)
    ghost = Call(server, b"ghost")
    reader_of(ghost)
    waiting = Call(server, b"waiting")
    server.read_until(b"ghost", b"waiting")

    def interrupted_again(connection: DirectConnection, request: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DirectConnection, "_interrupted", interrupted_again)
        interrupt(ghost.thread)
        with pytest.raises(KeyboardInterrupt):
            ghost.ended()
    with pytest.raises(ServerUnavailableError, match="is gone"):
        waiting.ended()


def test_callers_make_up_for_a_gatherer_that_left_without_a_word(
    server: DirectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_LOOK_S", 0.05)
    reader = Call(server, b"reader")
    server.read_until(b"reader")
    server.connection._gatherer = point.get("t", [b"ghost"], None)
    waiting = Call(server, b"waiting")
    server.read_until(b"waiting")
    server.socket.sendall(server.answer(b"reader", b"waiting"))
    assert (reader.ended(), waiting.ended()) == (b"reader", b"waiting")
    assert server.connection.statistics().repaired_count == 1
    server.connection._repaired_count = 0
