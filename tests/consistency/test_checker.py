"""The linearizability checker, on hand-written histories and on random ones with a known verdict."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.consistency.checker import UNKNOWN_END, Operation, linearized, problem_of
from tests.consistency.row_model import (
    ABSENT,
    Action,
    Answer,
    Append,
    CheckAndDelete,
    CheckAndPut,
    Create,
    DeleteRow,
    Increment,
    Put,
    Read,
    Replace,
    Row,
    Update,
    step,
)
from tests.seeds import drawn_seed

ONE, TWO = Row(b"1"), Row(b"2")


def operation(began: float, ended: float, action: Action, answer: Answer = None, row: bytes = b"r") -> Operation:
    return Operation(0, row, action, began, ended, answer)


def unknown(began: float, action: Action) -> Operation:
    return operation(began, UNKNOWN_END, action)


LINEARIZABLE: dict[str, list[Operation]] = {
    "nothing": [],
    "one after the other": [
        operation(1, 2, Read(), ABSENT),
        operation(3, 4, Put(b"1")),
        operation(5, 6, Read(), ONE),
    ],
    "a read beside a put sees it or not": [
        operation(1, 9, Put(b"1")),
        operation(2, 3, Read(), ABSENT),
        operation(4, 5, Read(), ONE),
    ],
    "of two puts at once either may be last": [
        operation(1, 9, Put(b"1")),
        operation(1, 9, Put(b"2")),
        operation(10, 11, Read(), ONE),
    ],
    "the order of the ends is not the order of the effects": [
        operation(1, 9, Put(b"1")),
        operation(2, 3, Put(b"2")),
        operation(10, 11, Read(), TWO),
    ],
    "an unknown put that never happened": [
        unknown(1, Put(b"1")),
        operation(2, 3, Read(), ABSENT),
        operation(50, 60, Read(), ABSENT),
    ],
    "an unknown put that happened late": [
        unknown(1, Put(b"1")),
        operation(2, 3, Read(), ABSENT),
        operation(50, 60, Read(), ONE),
    ],
    "unknown increments, some of which happened": [
        unknown(1, Increment(1)),
        unknown(1, Increment(10)),
        operation(2, 3, Increment(100), 110),
        operation(4, 5, Read(), Row(counter=111)),
    ],
    "a race of check and put": [
        operation(1, 4, CheckAndPut(None, b"1"), (False, b"2")),
        operation(1, 5, CheckAndPut(None, b"2"), (True, None)),
        operation(6, 7, Read(), TWO),
    ],
    "create, update and delete": [
        operation(1, 2, Update(b"1"), False),
        operation(3, 4, Create(b"1"), True),
        operation(5, 6, Create(b"2"), False),
        operation(7, 8, Update(b"2"), True),
        operation(9, 10, CheckAndDelete(b"2"), (True, b"2")),
        operation(11, 12, Create(b"1"), True),
    ],
    "one change of several": [
        operation(1, 2, Increment(5), 5),
        operation(3, 4, Append(b"a"), b"a"),
        operation(5, 6, Replace(b"1", 3), (3, 6)),
        operation(7, 8, Read(), Row(b"1", 6)),
    ],
}

NOT_LINEARIZABLE: dict[str, list[Operation]] = {
    "a put that was answered is not seen": [
        operation(1, 2, Put(b"1")),
        operation(3, 4, Read(), ABSENT),
    ],
    "seen, and then not any more": [
        operation(1, 9, Put(b"1")),
        operation(2, 3, Read(), ONE),
        operation(4, 5, Read(), ABSENT),
    ],
    "two readers see two puts in different orders": [
        operation(1, 20, Put(b"1")),
        operation(1, 20, Put(b"2")),
        operation(2, 3, Read(), ONE),
        operation(4, 5, Read(), TWO),
        operation(6, 7, Read(), ONE),
    ],
    "seen before it began": [
        operation(1, 2, Read(), ONE),
        operation(3, 4, Put(b"1")),
    ],
    "an unknown put happens once only": [
        unknown(1, Put(b"1")),
        operation(2, 3, Read(), ONE),
        operation(4, 5, DeleteRow()),
        operation(6, 7, Read(), ONE),
    ],
    "an unknown put does not happen before it began": [
        operation(1, 2, Read(), ONE),
        unknown(3, Put(b"1")),
    ],
    "an increment counted twice": [
        operation(1, 2, Increment(1), 1),
        operation(3, 4, Read(), Row(counter=2)),
    ],
    "two increments with one answer": [
        operation(1, 9, Increment(1), 1),
        operation(1, 9, Increment(1), 1),
    ],
    "two creators of one row": [
        operation(1, 9, Create(b"1"), True),
        operation(1, 9, Create(b"2"), True),
    ],
    "both win a race of check and put": [
        operation(1, 9, Put(b"0")),
        operation(10, 19, CheckAndPut(b"0", b"1"), (True, b"0")),
        operation(10, 19, CheckAndPut(b"0", b"2"), (True, b"0")),
    ],
    "no was answered after a value that was never there": [
        operation(1, 2, Put(b"1")),
        operation(3, 4, CheckAndPut(b"1", b"2"), (False, b"9")),
    ],
    "a part of a change is seen": [
        operation(1, 9, Replace(b"1", 3), (3, 6)),
        operation(2, 3, Read(), Row(b"1", 3)),
    ],
}


@pytest.mark.parametrize("history", LINEARIZABLE.values(), ids=LINEARIZABLE)
def test_a_history_that_some_order_explains_is_linearizable(history: list[Operation]) -> None:
    for given in itertools.islice(itertools.permutations(history), 50):
        order = linearized(given)
        assert order is not None
        assert_explains(order, history)
        assert problem_of(given) is None


@pytest.mark.parametrize("history", NOT_LINEARIZABLE.values(), ids=NOT_LINEARIZABLE)
def test_a_history_that_no_order_explains_is_not_linearizable(history: list[Operation]) -> None:
    for given in itertools.islice(itertools.permutations(history), 50):
        assert linearized(given) is None
    problem = problem_of(history)
    assert problem is not None
    assert all(str(operation.action) in problem for operation in history)


def test_rows_are_judged_one_by_one() -> None:
    good = [operation(1, 2, Put(b"1"), row=b"a"), operation(3, 4, Read(), ONE, row=b"a")]
    bad = [operation(1, 2, Put(b"1"), row=b"b"), operation(3, 4, Read(), ABSENT, row=b"b")]
    assert problem_of(good) is None
    problem = problem_of([*good, *bad])
    assert problem is not None
    assert "row b'b'" in problem


def test_random_histories_that_happened_are_linearizable_and_a_wrong_answer_is_noticed() -> None:
    seed = drawn_seed()
    draw = random.Random(seed)
    for _ in range(100):
        history = happened(draw)
        order = linearized(history)
        assert order is not None, f"seed {seed}: {problem_of(history)}"
        assert_explains(order, history)
        # No increment of these histories can lead to a counter like that.
        last = max(operation.ended for operation in history if operation.is_known)
        wrong = operation(last + 1, last + 2, Read(), Row(counter=-1))
        assert linearized([*history, wrong]) is None, f"seed {seed}: {problem_of(history)}"


def happened(draw: random.Random, count: int = 14) -> list[Operation]:
    """Returns a history whose operations took effect one after the other, each between its begin and its end."""
    history: list[Operation] = []
    row = ABSENT
    for moment in range(count):
        value = b"%d" % draw.randrange(3)
        action: Action = draw.choice(
            (
                Read(),
                Put(value),
                CheckAndPut(draw.choice((None, row.value)), value),
                Create(value),
                Increment(draw.randrange(1, 5)),
                Append(b"x"),
                DeleteRow(),
            )
        )
        began, ended = moment - 4 * draw.random(), moment + 4 * draw.random()
        happens, is_known = draw.random() < 0.9, draw.random() < 0.8
        if is_known:
            row, answer = step(action, row)
            history.append(operation(began, ended, action, answer))
        else:
            row = step(action, row)[0] if happens else row
            history.append(unknown(began, action))
    history.append(operation(count, count + 8, Read(), row))
    draw.shuffle(history)
    return history


def assert_explains(order: list[Operation], history: list[Operation]) -> None:
    """Checks that the order has every known operation, respects time, and that the model gives its answers."""
    assert len({id(operation) for operation in order}) == len(order)
    assert all(any(operation is given for given in history) for operation in order)
    assert {id(operation) for operation in history if operation.is_known} <= {id(operation) for operation in order}
    row = ABSENT
    for place, operation in enumerate(order):
        row, answer = step(operation.action, row)
        assert not operation.is_known or answer == operation.answer
        assert all(later.ended >= operation.began for later in order[place:])
