"""Answers of the point stream: joined bytes are one message."""

from __future__ import annotations

from random import Random

from rowlock_proto.v1.region_pb2 import GetAnswer, MutateAnswer, PointAnswers
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.errors import NotACounterError
from rowlock_regionserver.operations import AnswerCell, RowOutcome, RowResult
from rowlock_regionserver.rpc.messages.answers import (
    ERRORS_IN_FULL_MAX,
    error_answer,
    fill_results,
    get_answer,
    mutate_answer,
)

from tests.seeds import drawn_seed


def test_answers_joined_are_one_message_with_all_of_them() -> None:
    joined = (
        get_answer(1, [[(b"f", b"q", 5, b"v"), (b"f", b"q", 4, b"")], []])
        + error_answer(2, NotACounterError("no counter"), "")
        + mutate_answer(3, [RowResult(timestamp=7)])
    )
    message = PointAnswers.FromString(joined)
    assert [(answer.id, answer.WhichOneof("answer")) for answer in message.answers] == [
        (1, "get"),
        (2, "error"),
        (3, "mutate"),
    ]
    cells = message.answers[0].get.rows[0].cells
    assert [(cell.family, cell.qualifier, cell.timestamp, cell.value) for cell in cells] == [
        (b"f", b"q", 5, b"v"),
        (b"f", b"q", 4, b""),
    ]
    assert len(message.answers[0].get.rows) == 2
    assert message.answers[1].error.code == Error.NOT_A_COUNTER


def test_an_answer_of_absent_rows_only_is_still_an_answer() -> None:
    answer = PointAnswers.FromString(get_answer(1, [[]])).answers[0]
    assert answer.HasField("get")
    assert len(answer.get.rows) == 1


def test_everything_of_an_outcome_arrives() -> None:
    outcomes: list[RowOutcome] = [
        RowResult(
            condition_met=False,
            seen=((b"f", b"q", 1, b"old"),),
            results=((b"f", b"n", 2, b"new"), (b"f", b"a", 2, b"")),
            timestamp=2,
            repeated_request=True,
        ),
        NotACounterError("no counter", row=b"r"),
        RowResult(),
    ]
    results = PointAnswers.FromString(mutate_answer(1, outcomes)).answers[0].mutate.results
    first = results[0]
    assert (first.condition_met, first.timestamp, first.repeated_request) == (False, 2, True)
    assert [(cell.qualifier, cell.value) for cell in first.seen] == [(b"q", b"old")]
    assert [(cell.qualifier, cell.value) for cell in first.results] == [(b"n", b"new"), (b"a", b"")]
    assert results[1].error.row == b"r"
    assert not results[1].condition_met
    assert results[2].condition_met
    assert not results[2].HasField("error")


def test_an_empty_mutate_answer_is_still_an_answer() -> None:
    answer = PointAnswers.FromString(mutate_answer(4, [])).answers[0]
    assert answer.WhichOneof("answer") == "mutate"
    assert answer.mutate == MutateAnswer()
    assert answer.get == GetAnswer()


def test_errors_after_the_first_ones_have_a_short_message_and_all_their_evidence() -> None:
    outcomes = [NotACounterError("x" * 500, row=b"%d" % number, table="t") for number in range(ERRORS_IN_FULL_MAX + 2)]
    answer = mutate_answer(1, outcomes)
    errors = [result.error for result in PointAnswers.FromString(answer).answers[0].mutate.results]
    assert {len(error.message) for error in errors[:ERRORS_IN_FULL_MAX]} == {500}
    assert errors[-1].message == "NOT_A_COUNTER; see the first errors of this answer for full messages"
    assert (errors[-1].row, errors[-1].table, errors[-1].code) == (b"101", "t", Error.NOT_A_COUNTER)


def test_one_row_is_answered_by_hand_as_protobuf_would() -> None:
    random = Random(drawn_seed())
    for _ in range(300):
        result = RowResult(
            condition_met=random.random() < 0.5,
            results=tuple(drawn_cell(random) for _ in range(random.choice((0, 0, 1, 1, 3)))),
            timestamp=random.choice((0, 1, 127, 128, 1_700_000_000_000, (1 << 63) - 1)),
        )
        request_id = random.choice((0, 1, 200, random.getrandbits(64)))
        message = PointAnswers()
        answer = message.answers.add()
        answer.id = request_id
        fill_results(answer.mutate, [result])
        assert PointAnswers.FromString(mutate_answer(request_id, [result])) == message, result


def drawn_cell(random: Random) -> AnswerCell:
    family, qualifier, value = [random.randbytes(random.choice((0, 1, 8, 127, 128, 20_000))) for _ in range(3)]
    return family, qualifier, random.choice((0, 5, 1_700_000_000_000)), value
