"""The mapping of a typed table, and what the table kept when the two were compared. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock._core.kept_mapping import agreed
from rowlock._core.row_types import selected
from rowlock._core.typed_rows import RowCodec
from rowlock.mapping import Mapping, parsed_kept


@dataclass(frozen=True, slots=True)
class InUse:
    """A mapping in use.

    kept_text: what the table kept then; empty: nothing; None: not compared yet. codec: of the row type's columns.
    """

    kept_text: str | None
    mapping: Mapping
    codec: RowCodec


class TableMapping:
    """The mapping of a typed table. Thread-safe: a change is one assignment.

    follows: whether it is the kept mapping, and changes with it; otherwise the kept one must agree with it.
    """

    def __init__(self, table: str, mapping: Mapping, row_type: object, *, follows: bool) -> None:
        self._table = table
        self._given = None if follows else mapping
        self._row_type = row_type
        self.in_use = self._made(mapping.text if follows else None, mapping)

    def compared(self, kept_text: str) -> InUse:
        """Returns the mapping to use with what the table keeps; empty: nothing. Raises MappingError."""
        now = self.in_use
        if now.kept_text == kept_text:
            return now
        if self._given is not None:
            mapping = agreed(self._given, kept_text, self._table)
        else:
            mapping = parsed_kept(kept_text, self._table) if kept_text else now.mapping
        self.in_use = self._made(kept_text, mapping)
        return self.in_use

    def _made(self, kept_text: str | None, mapping: Mapping) -> InUse:
        return InUse(kept_text, mapping, RowCodec(selected(mapping, self._row_type)))
