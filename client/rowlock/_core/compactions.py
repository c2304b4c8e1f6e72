"""Requests for compactions, and the decision when the wait for them is over. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.columns import check_int, encoded_family, listed
from rowlock._core.catalog import check_table_name, property_texts
from rowlock.compactions import Compaction
from rowlock.errors import CompactionError, DeadlineError, InvalidArgumentError

# Between two looks at the compactions that are waited for.
_PAUSE_FIRST_S, _PAUSE_S_MAX = 0.05, 1.0


def compact_request(
    name: str, families: Iterable[str] | None, properties: Mapping[str, object] | None, *, major: bool
) -> catalog_pb2.CompactRequest:
    check_table_name(name)
    chosen = [encoded_family(family) for family in listed("families", "names", families or ())]
    if families is not None and not chosen:
        raise InvalidArgumentError("families is empty: name families, or pass None for all of them")
    return catalog_pb2.CompactRequest(
        table=name, families=chosen, major=bool(major), properties=property_texts(properties)
    )


def compaction_ids(ids: Iterable[int]) -> list[int]:
    """Returns the ids. Raises TypeError and InvalidArgumentError."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a list of ids of compactions, not {ids!r:.100}")
    found = list(ids)
    for each in found:
        check_int("an id of a compaction", each)
        if not 0 <= each < 1 << 63:
            raise InvalidArgumentError(f"{each} is not the id of a compaction")
    return found


class CompactionWait:
    """The wait for some compactions of one table. Times are seconds on one monotonic clock."""

    def __init__(self, table: str, ids: Sequence[int], now: float, timeout_s: float | None) -> None:
        self._table = table
        self._ids = ids
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else now + timeout_s
        self._pause_s = _PAUSE_FIRST_S

    def pause_s(self, found: Sequence[Compaction], now: float) -> float | None:
        """Returns how long to wait before the next look; None if all compactions have succeeded.

        Raises CompactionError if one has not, or is not known any more, and DeadlineError.
        """
        missing = set(self._ids) - {each.compaction_id for each in found}
        if missing:
            raise CompactionError(
                f"compaction {min(missing)} of table {self._table!r} is not known any more: the server was restarted "
                "before it ended; request it again",
                ids=sorted(missing),
                table=self._table,
            )
        if all(each.is_over for each in found):
            self._check_success(found)
            return None
        if self._deadline is not None and now >= self._deadline:
            raise DeadlineError(
                f"the compaction of table {self._table!r} did not end within {self._timeout_s:g} s; it continues on "
                "the server, and `compactions` shows it",
                table=self._table,
            )
        pause, self._pause_s = self._pause_s, min(2 * self._pause_s, _PAUSE_S_MAX)
        return pause if self._deadline is None else min(pause, self._deadline - now)

    def _check_success(self, found: Sequence[Compaction]) -> None:
        failed = [each for each in found if each.state != "succeeded"]
        if failed:
            first = failed[0]
            others = f"; {len(failed) - 1} more did not succeed either" if len(failed) > 1 else ""
            raise CompactionError(
                f"the compaction of family {first.family!r} in region {first.region_id} of table {self._table!r} "
                f"{'failed' if first.state == 'failed' else 'did not start'}: {first.error}{others}",
                ids=[each.compaction_id for each in failed],
                table=self._table,
            )
