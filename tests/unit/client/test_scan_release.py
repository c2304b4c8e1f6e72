"""A scan whose opening was answered when its caller left is ended by a point request."""

from __future__ import annotations

import asyncio
from typing import Never, cast

import pytest
from rowlock._core.conversation import Conversation, Request
from rowlock._core.scan_opening import opening_request
from rowlock._core.scan_release import abandon
from rowlock._core.sequences import Sequences
from rowlock.aio._transport import scan_opening
from rowlock.aio._transport.servers import Servers
from rowlock.errors import ClosedError
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2

HELD = 7


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_closed_client_does_not_hide_that_the_task_was_cancelled(is_closed: bool) -> None:
    submitted: list[Request] = []

    def submit(request: Request) -> None:
        if is_closed:
            raise ClosedError("the client was closed")
        submitted.append(request)

    conversation = Conversation(Sequences())
    opening = opening_request("t", region_pb2.ScanRequest(region_id=1))
    assert opening is not None
    opening.prepare(1, 1000, lambda: None)
    conversation.submit(opening)
    assert conversation.next_message() is not None
    opened = region_pb2.OpenedScan(held_scan=HELD)
    conversation.answered([region_pb2.PointAnswer(id=opening.id, opened_scan=opened)])
    abandon(conversation, opening, submit)
    assert [request.point.open_scan.held_scan for request in submitted] == ([] if is_closed else [HELD])


class FakeServers:
    """Answers the opening of a scan that the server holds. It is its own link, and keeps what is released."""

    def __init__(self) -> None:
        self.released: list[tuple[Region, int]] = []

    async def attempt_in(self, region: Region, opening: Request, deadline: float) -> None:
        opened = region_pb2.OpenedScan(held_scan=HELD)
        opening.answer = region_pb2.PointAnswer(id=opening.id, opened_scan=opened)

    def link_to(self, region: Region) -> FakeServers:
        return self

    def release(self, region: Region, held_scan: int) -> None:
        self.released.append((region, held_scan))


def test_a_scan_whose_task_is_cancelled_while_it_is_continued_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_stream(*_: object) -> Never:
        raise asyncio.CancelledError

    monkeypatch.setattr(scan_opening, "open_stream", open_stream)
    servers, region = FakeServers(), Region(1, "t", b"", b"", "server")
    opening = opening_request("t", region_pb2.ScanRequest(region_id=1))
    assert opening is not None
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scan_opening.open_scan(cast("Servers", servers), region, opening, 10))
    assert servers.released == [(region, HELD)]
