"""The error of a call of a procedure that failed."""

from __future__ import annotations

from rowlock_proto.shown_names import row_text

from rowlock_regionserver.errors import ProcedureFailedError
from rowlock_regionserver.operations import ProcedureCall


def failed(call: ProcedureCall, why: str) -> ProcedureFailedError:
    """Returns the error that says which procedure failed, for which row, and why."""
    return ProcedureFailedError(
        f"procedure {call.name!r} failed for row {row_text(call.row)}, and nothing was changed: {why}", row=call.row
    )
