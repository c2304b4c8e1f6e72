"""A turn of the event loop: the changes that came in one iteration of it, each in its own message, are made together.

While many processes write, an iteration finds requests on several sockets; and while many threads of one client write,
one receive brings several messages. Each change by itself would claim the log, write its record and release the log.
Together they are one call of the region and one write (coalesced_changes.py).

1. A change joins if it is a plain one, alone in its message, and if more than one socket was ready, or more has come on
   its own. So the change of a single caller waits for nothing.
2. The turn ends when the next iteration begins, or before a connection that has joined begins anything else: the
   requests of each connection begin in their order. With one ready socket it ends with the last message of the receive.
3. When the turn ends, its changes are made, and each of its connections sends what is answered by then.

    iteration   sockets of A, B and C are ready: A's put joins, B's put joins, C's get is answered
    the next    A's and B's puts are made by one call, then answered; then the sockets that are ready now
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from rowlock_proto.v1.region_pb2 import PointRequests

from rowlock_regionserver.engine.coalesced_changes import CoalescedChanges
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.rpc.messages.mutations import CLIENT_ID_BYTES
from rowlock_regionserver.rpc.messages.point_requests import PointChange, plain_changes_answer


class Member(Responder, Protocol):
    """A connection whose change has joined."""

    def hold_answers(self) -> None:
        """Holds answers back until `send_held`, which follows soon."""

    def send_held(self) -> None:
        """Sends the answers."""


class Turn:
    """Gathers the changes of one iteration of the loop. Used on the event loop."""

    def __init__(self, points: Points, ready_count: Callable[[], int] = lambda: 1) -> None:
        """`ready_count`: returns how many sockets were ready in this iteration (ready_selector.py)."""
        self._points = points
        self._ready_count = ready_count
        self._loop = asyncio.get_running_loop()
        self._changes = CoalescedChanges(points, plain_changes_answer)
        self._members: dict[Member, None] = {}

    def join(self, message: PointRequests, connection: Member, *, has_more: bool) -> bool:
        """Takes the request of a message that has exactly one, if it may join; `opened` has counted it.

        has_more: the connection has received more after it. Returns False if the caller must begin it.
        """
        is_alone = self._ready_count() < 2
        if is_alone and not has_more and connection not in self._members:
            return False
        request, client_id = message.requests[0], message.client_id
        if not request.HasField("mutate") or len(client_id) not in (0, CLIENT_ID_BYTES):
            return False
        change = PointChange(request, client_id, message.sequence_floor, self._points.config)
        if not self._changes.join(change, connection):
            return False
        if not self._members:
            self._loop.call_soon(self.end)
        self._members[connection] = None
        if is_alone and not has_more:
            self.end()
        return True

    def end_for(self, connection: Member) -> None:
        """Ends the turn if a change of the connection has joined. It begins something else next."""
        if self._members and connection in self._members:
            self.end()

    def end(self) -> None:
        """Makes the changes, and sends the answers that are there."""
        members, self._members = self._members, {}
        for member in members:
            member.hold_answers()
        try:
            self._changes.make()
        finally:
            for member in members:
                member.send_held()
