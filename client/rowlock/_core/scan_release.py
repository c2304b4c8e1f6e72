"""Ends scans that a point request has opened for a caller that no longer waits; without I/O.

The server would hold such a scan for some seconds, with its read point and its memory: a service that cancels a hundred
tasks a second would take all of scans_open_max. For drivers whose callers are tasks; a thread is seldom interrupted.
"""

from __future__ import annotations

from collections.abc import Callable

from rowlock_proto.v1 import region_pb2

from rowlock._core.conversation import Conversation, Request

# How long the server may take to end a scan.
_TIMEOUT_MS = 10_000


class OpeningRequest(Request):
    """Opens a scan. For one attempt only."""

    __slots__ = ()


def abandon(conversation: Conversation, request: Request, submit: Callable[[Request], object]) -> None:
    """Ends the wait for a request.

    submit: called with one more request, when the answer comes, if that is of a scan that the server holds.
    """
    if not (request.sent and isinstance(request, OpeningRequest)):
        conversation.abandon(request)
        return

    def release() -> None:
        if request.answer is not None and request.answer.opened_scan.held_scan:
            message = region_pb2.PointRequests()
            message.requests.add().open_scan.held_scan = request.answer.opened_scan.held_scan
            releasing = Request(request.table, request.row, message, is_change=False)
            releasing.prepare(request.region_id, _TIMEOUT_MS, _wake_no_caller)
            submit(releasing)

    request.wake = release


def _wake_no_caller() -> None:
    """The answer says nothing: the scan is gone."""
