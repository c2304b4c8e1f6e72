"""A plain model of locks: each node is a list of entries in order of arrival, and an entry is held if it goes together
with all entries before it that are not of its own session.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rowlock_regionserver.locks.lock import LockKey, Mode, Wanted


@dataclass(eq=False)
class ModelRequest:
    """What one session, or one call, wants. `place` of the wanted nodes are held."""

    session: str  # of a call: a name of its own
    wanted: Wanted
    place: int = 0

    @property
    def is_granted(self) -> bool:
        return self.place == len(self.wanted)


@dataclass
class LockModel:
    """All requests, by node."""

    nodes: dict[LockKey, list[ModelRequest]] = field(default_factory=dict)
    requests: list[ModelRequest] = field(default_factory=list)

    def ask(self, request: ModelRequest) -> bool:
        """Adds a request. False: it is refused, because its session must not wait."""
        others = [each for each in self.requests if each.session == request.session]
        if not all(each.is_granted for each in others):
            return False
        self.requests.append(request)
        self._arrive(request)
        self._settle()
        if request.is_granted or not any(each.wanted[-1][0] >= request.wanted[request.place][0] for each in others):
            return True
        self.leave(request)
        return False

    def leave(self, request: ModelRequest) -> None:
        """Removes a request, held or waiting."""
        self.requests.remove(request)
        for entries in self.nodes.values():
            if request in entries:
                entries.remove(request)
        self._settle()

    def held(self) -> set[tuple[str, LockKey, Mode]]:
        """Who holds what."""
        return {(each.session, key, mode) for each in self.requests for key, mode in each.wanted[: each.place]}

    def waiting(self) -> list[tuple[str, LockKey]]:
        """Who waits where, in order of arrival at each node."""
        return [
            (each.session, key)
            for key, entries in sorted(self.nodes.items())
            for each in entries
            if not self._holds(each, key)
        ]

    def _arrive(self, request: ModelRequest) -> None:
        """Enters the next node: at its end, or if its session holds it, before those that wait."""
        key = request.wanted[request.place][0]
        entries = self.nodes.setdefault(key, [])
        holds = [self._holds(each, key) for each in entries]
        is_holder = any(held and each.session == request.session for each, held in zip(entries, holds, strict=True))
        entries.insert(sum(holds) if is_holder else len(entries), request)

    def _settle(self) -> None:
        """Grants what can be granted, until nothing changes; a request goes as far as it can before the next one."""
        while any(self._goes_on(request, key) for key, entries in sorted(self.nodes.items()) for request in entries):
            pass

    def _goes_on(self, request: ModelRequest, key: LockKey) -> bool:
        """Takes the next nodes of a request that waits here. False: there is none to take."""
        if request.is_granted or request.wanted[request.place][0] != key:
            return False
        first = request.place
        while not request.is_granted and self._is_next(request):
            request.place += 1
            if not request.is_granted:
                self._arrive(request)
        return request.place > first

    def _is_next(self, request: ModelRequest) -> bool:
        key, mode = request.wanted[request.place]
        entries = self.nodes[key]
        before = [each for each in entries[: entries.index(request)] if each.session != request.session]
        return not any(Mode.EXCLUSIVE in (mode, self._mode(each, key)) for each in before)

    @staticmethod
    def _mode(request: ModelRequest, key: LockKey) -> Mode:
        return dict(request.wanted)[key]

    @staticmethod
    def _holds(request: ModelRequest, key: LockKey) -> bool:
        return any(each == key for each, _ in request.wanted[: request.place])
