"""Repeated requests: their answer, and which outcomes without a change are kept for them."""

from __future__ import annotations

from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowOutcome, RowResult
from rowlock_regionserver.region.idempotency.answer import RepeatedAnswer
from rowlock_regionserver.region.idempotency.answer_size import bytes_of_cells


def repeated(request: RequestId, kept: RepeatedAnswer, room: int) -> tuple[RowOutcome, int, int]:
    """The kept outcome, the write number that must be published first, and the bytes of its cells in the answer.

    Without all cells, or room for them, an error that says what else is known.
    """
    outcome = kept.outcome
    if isinstance(outcome, RegionServerError):
        return outcome, kept.write_number, 0
    byte_count = bytes_of_cells(outcome)
    if not kept.is_cut and byte_count <= room:
        return outcome._replace(repeated_request=True), kept.write_number, byte_count
    became = f"its change was made with the stamp {outcome.timestamp}" if outcome.timestamp else "it changed nothing"
    error = UnknownOutcomeError(
        f"request {request.sequence} was answered before, and {became}; the cells that it answered are "
        f"{'not kept any more' if kept.is_cut else 'too many for this answer'}, read the row"
    )
    return error, kept.write_number, 0


def is_definite_without_change(outcome: RowOutcome) -> bool:
    """The request changed nothing and its answer says so, so no later copy of it may change anything."""
    if isinstance(outcome, RowResult):
        return not outcome.timestamp
    return not outcome.can_retry and not isinstance(outcome, UnknownOutcomeError)
