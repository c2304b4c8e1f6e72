"""The queues of the lock tree: a pure state machine, without threads, time or waiting.

Rules
1. Each node has holders and one queue. A request is granted a node at once if nothing waits there and its mode goes
   together with those of the holders; else it waits at the end of the queue. When a holder leaves, requests are taken
   from the front as long as they go together with the holders. So nothing passes an exclusive request.
2. A request takes its nodes one after the other, in ascending order of their keys, and waits at one node at a time. So
   the holder of a node waits only for later nodes, and no circle can form.
3. Requests of one session don't exclude each other. A session that holds a node gets it at once in the same or a
   weaker mode, and exclusively if nobody else holds it.
4. So that rule 2 holds for sessions too: a request that must wait is refused instead if its session holds a node that
   is not earlier, and any request is refused while another one of its session waits.

    tree.request(r)        -> GRANTED, WAITING or REFUSED
    tree.leave(r)          -> the requests that are granted as a whole because of that

O(1) for a request without waiters beside it.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from rowlock_regionserver.locks.lock import LockHolder, LockKey, Mode, Wanted
from rowlock_regionserver.sessions.session import SessionRef


class Answer(enum.Enum):
    """What became of a request."""

    GRANTED = enum.auto()
    WAITING = enum.auto()
    REFUSED = enum.auto()  # it must not wait: read its blockers, then let it leave


@dataclass(eq=False, slots=True)
class LockRequest:
    """The locks that one caller wants together. `taken` of them are held; all: it is granted."""

    holder: LockHolder
    wanted: Wanted
    since_ms: int
    taken: int = 0
    is_gone: bool = False
    number: int = 0  # set when it is granted
    waits_until_ms: int = 0
    granted_ms: int = 0

    @property
    def is_granted(self) -> bool:
        """Whether it holds all that it wants."""
        return self.taken == len(self.wanted) and not self.is_gone

    def is_of_same_session(self, other: LockRequest) -> bool:
        """Whether both belong to one session. A call without a session is alone."""
        session = self.holder.session
        return other is self or (session is not None and session == other.holder.session)


@dataclass(slots=True)
class _Node:
    """A table or a region that is locked or waited for."""

    holders: dict[LockRequest, Mode] = field(default_factory=dict)
    queue: deque[LockRequest] = field(default_factory=deque)


class LockTree:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[LockKey, _Node] = {}
        self._requests: dict[LockRequest, None] = {}  # in order of arrival
        self._of_sessions: dict[SessionRef, dict[LockRequest, None]] = {}

    @property
    def requests(self) -> list[LockRequest]:
        """All that hold or wait, in order of arrival."""
        return list(self._requests)

    def request(self, request: LockRequest, *, may_wait: bool = True) -> Answer:
        """Takes as many nodes as it can."""
        has_waiting = not all(other.is_granted for other in self._others_of_session(request))
        self._requests[request] = None
        if request.holder.session is not None:
            self._of_sessions.setdefault(request.holder.session, {})[request] = None
        if has_waiting:
            return Answer.REFUSED
        if self._advance(request):
            return Answer.GRANTED
        if may_wait and not self._must_not_wait(request):
            return Answer.WAITING
        return Answer.REFUSED

    def leave(self, request: LockRequest) -> list[LockRequest]:
        """Releases what the request holds, or withdraws it. Returns the requests that are granted now. Idempotent."""
        if request not in self._requests:
            return []
        del self._requests[request]
        session = request.holder.session
        if session is not None:
            del self._of_sessions[session][request]
            if not self._of_sessions[session]:
                del self._of_sessions[session]
        request.is_gone = True
        touched = []
        for place, (key, _) in enumerate(request.wanted[: request.taken + 1]):
            node = self._nodes.get(key)
            if node is None:
                continue
            if place < request.taken:
                del node.holders[request]
            elif request in node.queue:
                node.queue.remove(request)
            touched.append(key)
        granted: list[LockRequest] = []
        for key in touched:
            self._pump(key, granted)
        return granted

    def blockers(self, request: LockRequest) -> list[LockRequest]:
        """Returns those that a waiting request waits for: holders of its node, and requests before it in the queue."""
        if request.is_gone or request.is_granted:
            return []
        key, mode = request.wanted[request.taken]
        node = self._nodes.get(key, _Node())
        before: list[LockRequest] = []
        for other in node.queue:
            if other is request:
                break
            before.append(other)
        holders = [
            other
            for other, held in node.holders.items()
            if not request.is_of_same_session(other) and Mode.EXCLUSIVE in (mode, held)
        ]
        return holders + [other for other in before if Mode.EXCLUSIVE in (mode, other.wanted[other.taken][1])]

    def _advance(self, request: LockRequest) -> bool:
        """Takes the next nodes of the request; at the first that is not free, enters its queue. True: it has all."""
        while request.taken < len(request.wanted):
            key, mode = request.wanted[request.taken]
            node = self._nodes.setdefault(key, _Node())
            is_holder = any(request.is_of_same_session(other) for other in node.holders)
            if (node.queue and not is_holder) or not self._goes_together(request, mode, node):
                node.queue.append(request)
                return False
            node.holders[request] = mode
            request.taken += 1
        return True

    def _goes_together(self, request: LockRequest, mode: Mode, node: _Node) -> bool:
        others = [held for other, held in node.holders.items() if not request.is_of_same_session(other)]
        return not others or (mode is Mode.SHARED and Mode.EXCLUSIVE not in others)

    def _must_not_wait(self, request: LockRequest) -> bool:
        """Rule 4, for a request that has entered a queue."""
        key = request.wanted[request.taken][0]
        return any(other.wanted[-1][0] >= key for other in self._others_of_session(request))

    def _others_of_session(self, request: LockRequest) -> list[LockRequest]:
        session = request.holder.session
        of_session = {} if session is None else self._of_sessions.get(session, {})
        return [other for other in of_session if other is not request]

    def _pump(self, key: LockKey, granted: list[LockRequest]) -> None:
        """Gives the node to the front of its queue, as long as they go together; adds those that have all now."""
        node = self._nodes.get(key)
        while node is not None and node.queue:
            front = node.queue[0]
            mode = front.wanted[front.taken][1]
            if not self._goes_together(front, mode, node):
                break
            node.queue.popleft()
            node.holders[front] = mode
            front.taken += 1
            if self._advance(front):
                granted.append(front)
        if node is not None and not node.queue and not node.holders:
            del self._nodes[key]

    def _check(self) -> None:
        """Asserts the invariants. O(requests × locks)."""
        for key, node in self._nodes.items():
            assert node.holders or node.queue, f"{key} is not locked"
            for one, mode in node.holders.items():
                for other, held in node.holders.items():
                    together = one.is_of_same_session(other) or (mode is held is Mode.SHARED)
                    assert together, f"{key}: {one} and {other}"
            if node.queue:
                front = node.queue[0]
                assert not self._goes_together(front, front.wanted[front.taken][1], node), f"{key}: {front} could go"
        for request in self._requests:
            for place, (key, mode) in enumerate(request.wanted):
                node = self._nodes.get(key, _Node())
                assert (node.holders.get(request) is mode) == (place < request.taken), (key, request)
                assert (request in node.queue) == (place == request.taken), (key, request)
