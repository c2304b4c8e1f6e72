"""Changes: executed on the loop or by a worker, and answered when they are published."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.engine.change_answers import ChangeAnswers
from rowlock_regionserver.engine.interfaces import ChangeRequest
from rowlock_regionserver.engine.point_run import INLINE_PARTS_MAX, INLINE_ROWS_MAX
from rowlock_regionserver.operations import RowMutation, WriteOptions


class ChangeRun(ChangeAnswers[ChangeRequest]):
    """An accepted change, until it is answered."""

    NAME = "change"

    __slots__ = ()

    def try_inline(self, *, is_alone: bool) -> bool:
        """2 Try, on the loop. Returns False, with nothing done, if it would have to wait or is large."""
        try:
            mutations = self._request.read(INLINE_ROWS_MAX, INLINE_PARTS_MAX)
            return mutations is not None and self._mutate(mutations, may_wait=False, is_alone=is_alone)
        except Exception as error:
            self._answer(self._request.failure(error, "executing a point request"))
            return True

    def _execute(self) -> None:
        try:
            mutations = self._request.read()
            assert mutations is not None
            is_made = self._mutate(mutations, may_wait=True, is_alone=False)
            assert is_made
        except Exception as error:
            self._answer_from_worker(self._request.failure(error, "executing a point request"))

    def _mutate(self, mutations: Sequence[RowMutation], *, may_wait: bool, is_alone: bool) -> bool:
        region = self._points.region_to_change(self._request.region_id, mutations)
        options = WriteOptions(self._deadline, self._request.durability(), is_alone)
        return region.mutate(mutations, options, self._done, may_wait=may_wait)
