"""Answers of the point stream: encodes values as bytes of PointAnswers messages.

Protobuf messages merge by concatenation: the bytes of PointAnswers with one answer each, joined, are the bytes of
one PointAnswers with all of them. So each answer is encoded where it is convenient, and the stream only joins them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from rowlock_proto.v1.region_pb2 import GetAnswer, MutateAnswer, OpenedScan, PointAnswer, PointAnswers, PutRowsAnswer
from rowlock_proto.v1.types_pb2 import Cell, Error
from rowlock_proto.varints import varint

from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.operations import AnswerCell, RowOutcome, RowResult
from rowlock_regionserver.rpc.messages.failures import error_message
from rowlock_regionserver.rpc.messages.one_row_answer import is_plain, one_row_answer

logger = logging.getLogger(__name__)

# Fields 1 (PointAnswers.answers), 5 (PointAnswer.opened_scan) and 1 (OpenedScan.batches) of length and bytes.
_ANSWERS_TAG, _OPENED_SCAN_TAG, _BATCHES_TAG = b"\x0a", b"\x2a", b"\x0a"
# How many errors of one answer have their full message. A wrong request is often wrong in each of its rows.
ERRORS_IN_FULL_MAX = 100


def get_answer(request_id: int, rows: list[Sequence[AnswerCell]]) -> bytes:
    """Encodes the answer of a get. Clears the list of rows, so that a large answer is held only twice."""
    message = PointAnswers()
    answer = message.answers.add()
    answer.id = request_id
    fill_get_answer(answer.get, rows)
    rows.clear()
    return message.SerializeToString()


def mutate_answer(request_id: int, outcomes: Sequence[RowOutcome]) -> bytes:
    """Encodes the answer of a mutate, with results in the order of its mutations."""
    if len(outcomes) == 1:
        outcome = outcomes[0]
        if isinstance(outcome, RowResult) and is_plain(outcome):
            return one_row_answer(request_id, outcome)
    message = PointAnswers()
    answer = message.answers.add()
    answer.id = request_id
    fill_mutate_answer(answer.mutate, outcomes)
    return message.SerializeToString()


def put_rows_answer(request_id: int, outcomes: Sequence[RowOutcome]) -> bytes:
    """Encodes the answer of puts in columns: without results if each row has the same one, and was changed now."""
    message = PointAnswers()
    answer = message.answers.add()
    answer.id = request_id
    first = outcomes[0]
    if isinstance(first, RowResult) and first == RowResult(timestamp=first.timestamp) and _are_all(first, outcomes):
        answer.put_rows.timestamp = first.timestamp
    else:
        fill_results(answer.put_rows, outcomes)
    return message.SerializeToString()


def _are_all(first: RowOutcome, outcomes: Sequence[RowOutcome]) -> bool:
    return outcomes.count(first) == len(outcomes)


def plain_answers(request_ids: Sequence[int], outcomes: Sequence[RowOutcome]) -> bytes | None:
    """Encodes the answers of mutates with one mutation each, in their order. None if one of them can't be encoded."""
    try:
        return b"".join(
            [mutate_answer(request_id, (outcome,)) for request_id, outcome in zip(request_ids, outcomes, strict=True)]
        )
    except Exception:
        logger.exception(
            "unexpected error while encoding the answers of coalesced changes; encoding each one separately"
        )
        return None


def call_answer(request_id: int, outcome: RowOutcome) -> bytes:
    """Encodes the answer of a row procedure."""
    if isinstance(outcome, RegionServerError):
        return error_answer(request_id, outcome, "calling a procedure")
    message = PointAnswers()
    answer = message.answers.add()
    answer.id = request_id
    answer.call.SetInParent()
    answer.call.answer = outcome.answer
    answer.call.timestamp = outcome.timestamp
    answer.call.repeated_request = outcome.repeated_request
    return message.SerializeToString()


def opened_scan_answer(request_id: int, batches: Sequence[bytes], read_point: int, held_scan: int) -> bytes:
    """Encodes the answer to opening a scan, given its first ScanBatch messages. `held_scan`: 0 if it is complete."""
    # By hand, as in scan_batches.py: protobuf would copy the rows three times.
    parts = [OpenedScan(is_complete=not held_scan, held_scan=held_scan, read_point=read_point).SerializeToString()]
    for batch in batches:
        parts += (_BATCHES_TAG, varint(len(batch)), batch)
    opened_bytes = sum(map(len, parts))
    head = PointAnswer(id=request_id).SerializeToString() + _OPENED_SCAN_TAG + varint(opened_bytes)
    return b"".join([_ANSWERS_TAG, varint(len(head) + opened_bytes), head, *parts])


def error_answer(request_id: int, error: BaseException, doing: str) -> bytes:
    """Encodes the answer of a request that failed as a whole."""
    message = PointAnswers()
    answer = message.answers.add()
    answer.id = request_id
    answer.error.CopyFrom(error_message(error, doing))
    return message.SerializeToString()


def fill_get_answer(message: GetAnswer, rows: Sequence[Sequence[AnswerCell]]) -> None:
    """Writes the rows, in their order, into the message. An absent row becomes an empty one."""
    # An empty answer must differ from no answer.
    message.SetInParent()
    for cells in rows:
        add = message.rows.add().cells.add
        for family, qualifier, timestamp, value in cells:
            cell = add()
            cell.family = family
            cell.qualifier = qualifier
            cell.timestamp = timestamp
            cell.value = value


def fill_mutate_answer(message: MutateAnswer, outcomes: Iterable[RowOutcome]) -> None:
    """Writes the outcomes, in their order, into the message; see `fill_results`."""
    fill_results(message, outcomes)


def fill_results(message: MutateAnswer | PutRowsAnswer, outcomes: Iterable[RowOutcome]) -> None:
    """Writes the outcomes, in their order, into the message. Errors beyond ERRORS_IN_FULL_MAX get a short message."""
    message.SetInParent()
    error_count = 0
    for outcome in outcomes:
        result = message.results.add()
        if isinstance(outcome, RegionServerError):
            error = error_message(outcome, "changing a row")
            error_count += 1
            if error_count > ERRORS_IN_FULL_MAX:
                error.message = f"{Error.Code.Name(error.code)}; see the first errors of this answer for full messages"
            result.error.CopyFrom(error)
            continue
        result.condition_met = outcome.condition_met
        result.timestamp = outcome.timestamp
        if outcome.seen:
            result.seen.extend([_cell(cell) for cell in outcome.seen])
        if outcome.results:
            result.results.extend([_cell(cell) for cell in outcome.results])
        if outcome.repeated_request:
            result.repeated_request = True


def _cell(cell: AnswerCell) -> Cell:
    family, qualifier, timestamp, value = cell
    return Cell(family=family, qualifier=qualifier, timestamp=timestamp, value=value)
