"""Puts of many rows in columns: executed by a worker, and answered when they are published."""

from __future__ import annotations

from rowlock_regionserver.engine.change_answers import ChangeAnswers
from rowlock_regionserver.engine.interfaces import PutRowsRequest
from rowlock_regionserver.operations import WriteOptions


class PutRowsRun(ChangeAnswers[PutRowsRequest]):
    """Accepted puts in columns, until they are answered."""

    NAME = "put in columns"

    __slots__ = ()

    def _execute(self) -> None:
        try:
            batch, durability = self._request.read()
            region = self._points.region(self._request.region_id)
            region.put_rows(batch, WriteOptions(self._deadline, durability), self._done)
        except Exception as error:
            self._answer_from_worker(self._request.failure(error, "executing a point request"))
