"""Repeated requests: their answer, and which outcomes without a change are saved for them."""

from __future__ import annotations

from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowOutcome, RowResult
from rowlock_regionserver.region.idempotency.answer import RepeatedAnswer
from rowlock_regionserver.region.idempotency.answer_size import bytes_of_cells


def repeated(request: RequestId, saved: RepeatedAnswer, budget: int) -> tuple[RowOutcome, int, int]:
    """Returns the saved outcome, the write number that must be published first, and its cells' bytes in the answer.

    If its cells were dropped, or exceed the budget, the outcome is an error that says what is known.
    """
    outcome = saved.outcome
    if isinstance(outcome, RegionServerError):
        return outcome, saved.write_number, 0
    byte_count = bytes_of_cells(outcome)
    if not saved.is_cut and byte_count <= budget:
        return outcome._replace(repeated_request=True), saved.write_number, byte_count
    became = f"its change was made with the stamp {outcome.timestamp}" if outcome.timestamp else "it changed nothing"
    error = UnknownOutcomeError(
        f"request {request.sequence} was answered before, and {became}; the content of that answer is "
        f"{'no longer saved' if saved.is_cut else 'too large for this one'}, read the row"
    )
    return error, saved.write_number, 0


def is_definite_without_change(outcome: RowOutcome) -> bool:
    """Whether the request changed nothing and its answer says so, so that no later copy of it may change anything."""
    if isinstance(outcome, RowResult):
        return not outcome.timestamp
    return not outcome.can_retry and not isinstance(outcome, UnknownOutcomeError)
