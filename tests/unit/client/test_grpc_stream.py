"""The point stream of gRPC when it can't be opened (threads)."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from types import TracebackType

import pyarrow as pa
import pytest
import rowlock
from rowlock._transport import bulk_stream
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted

from tests.unit.client.fake_server import FakeServer
from tests.waiting import wait_until


def test_a_channel_that_is_closed_before_a_stream_is_opened_on_it_is_a_closed_client(
    servers: Servers, db: rowlock.Client, fake_server: FakeServer
) -> None:
    table = db.table("t")
    servers.region_of("t", b"row", time.monotonic() + 60)
    servers.channel(fake_server.address).close()
    with pytest.raises(rowlock.ClosedError):
        table.put("row", {"f:q": "1"})
    with pytest.raises(rowlock.ClosedError):
        table.put_arrow(pa.table({"k": ["x"], "v": ["1"]}), "k STRING :key, v STRING f:v")


def test_a_stream_whose_thread_can_not_be_started_is_opened_again(db: rowlock.Client, fake_server: FakeServer) -> None:
    def start(thread: threading.Thread) -> None:
        if thread.name == "rowlock answers":
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    table, start_thread = db.table("t"), threading.Thread.start
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            table.put("row", {"f:q": "1"})
    table.put("other", {"f:q": "1"})
    assert set(fake_server.rows) == {b"other"}


def sending_threads() -> int:
    """How many threads of grpc take the messages of a stream. The fake server has others."""
    frames = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
    return sum(any(step.name == "consume_request_iterator" for step in stack) for stack in frames)


def test_an_interruption_when_a_stream_of_batches_has_just_opened_leaves_no_thread(
    servers: Servers, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptedAtTheEnd(Uninterrupted):
        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None:
            super().__exit__(kind, error, traceback)
            raise KeyboardInterrupt

    region = servers.region_of("t", b"row", time.monotonic() + 60)
    with monkeypatch.context() as patched:
        patched.setattr(bulk_stream, "Uninterrupted", InterruptedAtTheEnd)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                bulk_stream.BulkStream(servers, region, 60)
    wait_until(lambda: sending_threads() == 0)
