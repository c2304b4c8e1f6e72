"""The names that completion takes from the server: tables, families, columns, rows, regions, snapshots, jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rowlock_proto.shown_names import escaped

from rowlock._codec.escapes import EscapeError, unescaped

if TYPE_CHECKING:
    from rowlock import Client, Mapping

# How long names are cached.
_FRESH_SECONDS = 5.0
# A key press waits no longer.
_TIMEOUT_S = 2.0
# How many rows are offered; how many keys are read for them; how many rows for the columns that they have.
_ROWS_SHOWN, _KEYS_READ, _ROWS_SAMPLED = 20, 1000, 50


class ServerNames:
    """Requests names at most every 5 s. Returns none while the server is unreachable; the command will report why."""

    def __init__(self, connect: Callable[[], Client], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._connect = connect
        self._monotonic = monotonic
        self._cached: dict[tuple[object, ...], tuple[float, Sequence[str]]] = {}

    def tables(self) -> Sequence[str]:
        """Returns the tables."""
        return self._get(("tables",), lambda: sorted(self._connect().tables()))

    def families(self, table: str) -> Sequence[str]:
        """Returns the families of a table."""
        return self._get(("families", table), lambda: sorted(self._connect().describe(table).families))

    def columns(self, table: str, mapping: str | None) -> Sequence[str]:
        """Returns the names of a mapping's columns; without one those of some rows, and FAMILY: for each family."""
        return self._get(("columns", table, mapping), lambda: self._columns(table, mapping))

    def rows(self, table: str, typed: str, mapping: str | None) -> Sequence[str]:
        """Returns the first rows whose keys begin with what was typed."""
        return self._get(("rows", table, typed, mapping), lambda: self._rows(table, typed, mapping))

    def regions(self, table: str) -> Sequence[str]:
        """Returns the ids of a table's regions, in row order."""
        return self._get(
            ("regions", table), lambda: [str(region.region_id) for region in self._connect().regions(table)]
        )

    def borders(self, table: str) -> Sequence[str]:
        """Returns the first rows of a table's regions but the first, in row order."""
        return self._get(
            ("borders", table), lambda: [escaped(region.start) for region in self._connect().regions(table)[1:]]
        )

    def snapshots(self) -> Sequence[str]:
        """Returns the ids of the open snapshots."""
        return self._get(
            ("snapshots",), lambda: [found.snapshot_id.hex() for found in self._connect().status().snapshots]
        )

    def named_snapshots(self) -> Sequence[str]:
        """Returns the names of the named snapshots."""
        return self._get(
            ("named snapshots",), lambda: sorted(found.name for found in self._connect().named_snapshots())
        )

    def sessions(self) -> Sequence[str]:
        """Returns the ids of the sessions that have not ended."""
        return self._get(("sessions",), lambda: [found.session_id for found in self._connect().sessions()])

    def compactions(self) -> Sequence[str]:
        """Returns the ids of the compactions that wait and work."""
        return self._get(
            ("compactions",),
            lambda: [str(found.compaction_id) for found in self._connect().compactions() if not found.is_over],
        )

    def _get(self, key: tuple[object, ...], ask: Callable[[], Iterable[str]]) -> Sequence[str]:
        cached = self._cached.get(key)
        if cached is not None and self._monotonic() - cached[0] <= _FRESH_SECONDS:
            return cached[1]
        try:
            found = list(ask())
        except Exception:
            # A key press is not the place for an error message.
            return ()
        self._cached[key] = (self._monotonic(), found)
        return found

    def _mapping(self, table: str, given: str | None) -> Mapping | None:
        if given is None:
            return self._connect().kept_mapping(table)
        if given.strip().lower() == "none":
            return None
        from rowlock import Mapping

        return Mapping(given)

    def _columns(self, table: str, given: str | None) -> Iterable[str]:
        mapping = self._mapping(table, given)
        if mapping is not None:
            return [column.name for column in mapping.values]
        found: set[bytes] = set()
        for _, row in self._table(table).scan(limit=_ROWS_SAMPLED, keys_only=True):
            found.update(row)
        return sorted({*map(escaped, found), *(f"{family}:" for family in self.families(table))})

    def _rows(self, table: str, typed: str, given: str | None) -> Iterable[str]:
        mapping = self._mapping(table, given)
        if mapping is not None:
            from rowlock.cli.typed_text import begun_key, key_text

            opened = self._connect().table(table, mapping=mapping, timeout=_TIMEOUT_S)
            found = opened.scan(prefix=begun_key(mapping, typed), limit=_KEYS_READ, keys_only=True)
            keys = (key_text(mapping, key) for key, _ in found)
            return list(islice((key for key in keys if key.startswith(typed)), _ROWS_SHOWN))
        try:
            begun = unescaped(typed)
        except EscapeError:  # an escape that is not complete
            return ()
        rows = self._table(table).scan(prefix=begun or None, limit=_ROWS_SHOWN, keys_only=True)
        return [escaped(row) for row, _ in rows]

    def _table(self, table: str) -> Any:
        return self._connect().table(table, timeout=_TIMEOUT_S)
