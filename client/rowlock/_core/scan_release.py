"""Ends scans that a point request has opened for a caller that no longer waits; without I/O.

The server would hold such a scan for some seconds, with its read point and its memory: a service that cancels a hundred
tasks a second would take all of scans_open_max. For drivers whose callers are tasks; a thread is seldom interrupted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rowlock_proto.v1 import region_pb2

from rowlock._core.conversation import Conversation, Request
from rowlock.errors import ClosedError

# How long the server may take to end a scan.
_TIMEOUT_MS = 10_000


class OpeningRequest(Request):
    """Opens a scan. For one attempt only."""

    __slots__ = ()


def abandon(conversation: Conversation, request: Request, submit: Callable[[Request], object]) -> None:
    """Ends the wait for a request, whose answer nobody takes, also if it has come.

    submit: called with one more request, as soon as the answer has come, if that is of a scan that the server holds.
    """
    if not (request.sent and isinstance(request, OpeningRequest)):
        conversation.abandon(request)
        return

    def release() -> None:
        if request.answer is not None and request.answer.opened_scan.held_scan:
            held_scan = request.answer.opened_scan.held_scan
            with contextlib.suppress(ClosedError):  # The end of the connection ends the scan.
                submit(releasing_request(request.table, request.row, request.region_id, held_scan))

    if request.answer is None:
        request.wake = release
    else:
        release()


def releasing_request(table: str, row: bytes, region_id: int, held_scan: int) -> Request:
    """Returns the request that ends a scan of this region if the server still holds it, prepared to be sent."""
    message = region_pb2.PointRequests()
    message.requests.add().open_scan.held_scan = held_scan
    releasing = Request(table, row, message, is_change=False)
    releasing.prepare(region_id, _TIMEOUT_MS, _wake_no_caller)
    return releasing


def _wake_no_caller() -> None:
    """The answer says nothing: the scan is gone."""
