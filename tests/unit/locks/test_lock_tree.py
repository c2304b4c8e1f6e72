"""The lock tree: who is granted what, in which order, and that no circle of waiting requests can form."""

from __future__ import annotations

import pytest
from rowlock_regionserver.locks.lock import LockHolder, LockKey, Mode, wanted_of
from rowlock_regionserver.locks.lock_tree import Answer, LockRequest, LockTree
from rowlock_regionserver.sessions.session import SessionRef

S, X = Mode.SHARED, Mode.EXCLUSIVE


class Tree(LockTree):
    """A tree with short ways to ask."""

    def ask(
        self, *keys: tuple[str, Mode] | tuple[str, int, Mode], session: str = "", may_wait: bool = True
    ) -> tuple[LockRequest, Answer]:
        wanted = wanted_of([(LockKey(*key[:-1]), key[-1]) for key in keys])
        ref = SessionRef(session, 1) if session else None
        request = LockRequest(LockHolder(session, "", "", ref), wanted, 0)
        answer = self.request(request, may_wait=may_wait)
        if answer is Answer.REFUSED:
            self.leave(request)
        self._check()
        return request, answer


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.mark.parametrize(
    ("held", "requested", "expected"),
    [(S, S, Answer.GRANTED), (S, X, Answer.WAITING), (X, S, Answer.WAITING), (X, X, Answer.WAITING)],
)
def test_only_shared_goes_together_with_shared(tree: Tree, held: Mode, requested: Mode, expected: Answer) -> None:
    holder, answer = tree.ask(("t", held))
    assert answer is Answer.GRANTED
    request, answer = tree.ask(("t", requested))
    assert answer is expected
    assert tree.leave(holder) == ([] if expected is Answer.GRANTED else [request])


def test_the_table_of_a_region_is_locked_shared_first(tree: Tree) -> None:
    assert wanted_of([(LockKey("t", 7), X)]) == ((LockKey("t"), S), (LockKey("t", 7), X))
    region, _ = tree.ask(("t", 7, X))
    assert tree.ask(("t", 8, X))[1] is Answer.GRANTED
    assert tree.ask(("t", S))[1] is Answer.GRANTED
    assert tree.ask(("t", X), may_wait=False)[1] is Answer.REFUSED
    waiting, answer = tree.ask(("t", 7, S))
    assert answer is Answer.WAITING
    assert tree.blockers(waiting) == [region]


def test_locks_are_taken_in_one_order_whatever_the_request_names_first() -> None:
    assert [key for key, _ in wanted_of([(LockKey("b", 2), S), (LockKey("a"), X), (LockKey("b", 1), S)])] == [
        ("a", 0),
        ("b", 0),
        ("b", 1),
        ("b", 2),
    ]


def test_requests_are_served_in_order_and_nothing_passes_an_exclusive_one(tree: Tree) -> None:
    holder, _ = tree.ask(("t", S))
    exclusive, _ = tree.ask(("t", X))
    later = [tree.ask(("t", S))[0] for _ in range(3)]
    last, _ = tree.ask(("t", X))
    assert tree.blockers(later[0]) == [exclusive]
    assert tree.leave(holder) == [exclusive]
    assert tree.leave(exclusive) == later
    assert tree.leave(later[0]) == tree.leave(later[2]) == []
    assert tree.leave(later[1]) == [last]
    tree.leave(last)
    assert tree.requests == []
    assert not tree._nodes
    assert not tree._of_sessions


def test_a_request_that_gives_up_lets_those_behind_it_in(tree: Tree) -> None:
    tree.ask(("t", S))
    exclusive, _ = tree.ask(("t", X))
    behind, _ = tree.ask(("t", S))
    assert tree.leave(exclusive) == [behind]


def test_a_request_that_must_not_wait_leaves_nothing(tree: Tree) -> None:
    holder, _ = tree.ask(("b", X))
    assert tree.ask(("a", X), ("b", S), may_wait=False)[1] is Answer.REFUSED
    assert tree.requests == [holder]
    assert tree.ask(("a", X))[1] is Answer.GRANTED


def test_a_session_does_not_exclude_itself(tree: Tree) -> None:
    tree.ask(("t", X), session="one")
    assert tree.ask(("t", X), session="one")[1] is Answer.GRANTED
    assert tree.ask(("t", X), session="two")[1] is Answer.WAITING
    assert tree.ask(("t", S), session="one")[1] is Answer.GRANTED


def test_a_session_that_holds_a_later_lock_does_not_wait_for_an_earlier_one(tree: Tree) -> None:
    tree.ask(("b", S), session="one")
    tree.ask(("a", S), session="two")
    assert tree.ask(("a", X), session="one")[1] is Answer.REFUSED
    assert tree.ask(("a", S), session="one")[1] is Answer.GRANTED
    assert tree.ask(("b", X), session="two")[1] is Answer.WAITING


def test_a_shared_lock_becomes_exclusive_only_if_nobody_else_holds_it(tree: Tree) -> None:
    tree.ask(("t", S), session="one")
    other, _ = tree.ask(("t", S), session="two")
    assert tree.ask(("t", X), session="one")[1] is Answer.REFUSED
    tree.leave(other)
    assert tree.ask(("t", X), session="one")[1] is Answer.GRANTED


def test_a_session_waits_with_one_request_at_a_time(tree: Tree) -> None:
    """Else the session would hold b while it waits for a, and another one might do the opposite."""
    holder, _ = tree.ask(("a", X), session="two")
    waiting, _ = tree.ask(("a", X), session="one")
    assert tree.ask(("b", X), session="one")[1] is Answer.REFUSED
    assert tree.leave(holder) == [waiting]
    assert tree.ask(("b", X), session="one")[1] is Answer.GRANTED
