# Made from client/rowlock/aio/_tables/access.py by tools/async_to_sync.py: change that, then `make faces`.
"""Opens the tables of a client: as bytes, as text, or typed by a mapping (threads)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from rowlock._codec.columns import decoder
from rowlock._core.catalog import (
    check_table_name,
    parsed_mapping,
)
from rowlock._core.view import View
from rowlock._transport.kept_mapping import kept_mapping_text
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import (
    InvalidArgumentError,
    MappingError,
)
from rowlock.schema import (
    Durability,
)
from rowlock.table import Table

if TYPE_CHECKING:
    from rowlock._core.typed_rows import Row
    from rowlock.mapping import Mapping
    from rowlock.typed_table import TypedTable


class TableAccess:
    """The part of Client that opens tables."""

    # Set by SessionCalls.
    _servers: Servers
    _timeout_s: float

    @overload
    def table(
        self,
        name: str,
        *,
        encoding: None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Table[bytes]: ...

    @overload
    def table(
        self, name: str, *, encoding: str, durability: Durability | None = None, timeout: float | None = None
    ) -> Table[str]: ...

    @overload
    def table(
        self,
        name: str,
        *,
        mapping: Mapping | str,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> TypedTable[dict[str, Any]]: ...

    @overload
    def table(
        self,
        name: str,
        *,
        mapping: Mapping | str,
        row_type: type[Row],
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> TypedTable[Row]: ...

    def table(
        self,
        name: str,
        *,
        encoding: str | None = None,
        mapping: Mapping | str | None = None,
        row_type: type[Row] | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Table[bytes] | Table[str] | TypedTable[Any]:
        """Returns a table to read and change. Sends no request, so the table need not exist yet.

        encoding: "utf-8" for results that are str; None: bytes. mapping: returns a TypedTable, whose rows are typed by
        this mapping; `typed_table` uses the one that the table keeps. row_type: a TypedDict of the mapping's columns
        or some of them, for type checkers; only these columns are then read. durability: what an acknowledged write
        survives, if more than the table's own durability. timeout: seconds that a call may take, or each batch of a
        scan or of put_arrow; None: the client's.

        Raises InvalidArgumentError for a malformed name, encoding or timeout, MappingError for a malformed mapping and
        a row type that does not fit it. Whether the mapping agrees with the table's is checked by the first call.
        """
        check_table_name(name)
        if mapping is not None:
            if encoding is not None:
                raise InvalidArgumentError("a table has an encoding or a mapping, not both")
            return self._typed(name, parsed_mapping(mapping), row_type, durability, timeout, follows=False)
        if row_type is not None:
            raise InvalidArgumentError("row_type needs a mapping; typed_table(name) uses the one that the table keeps")
        if encoding is None:
            raw = View(name, self._timeout_s, bytes)
            return Table(self._servers, raw.with_options(durability, timeout))
        view = View(name, self._timeout_s, decoder(encoding))
        return Table(self._servers, view.with_options(durability, timeout))

    @overload
    def typed_table(
        self, name: str, *, durability: Durability | None = None, timeout: float | None = None
    ) -> TypedTable[dict[str, Any]]: ...

    @overload
    def typed_table(
        self, name: str, *, row_type: type[Row], durability: Durability | None = None, timeout: float | None = None
    ) -> TypedTable[Row]: ...

    def typed_table(
        self,
        name: str,
        *,
        row_type: type[Row] | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> TypedTable[Any]:
        """Returns a table whose rows are typed by the mapping that it keeps. Arguments as in `table`.

        Looks the mapping up. Raises TableNotFoundError, and MappingError if the table keeps no mapping.
        """
        mapping = self.kept_mapping(name)
        if mapping is None:
            raise MappingError(
                f"table {name!r} keeps no mapping; pass one to table(), or keep one by alter_table({name!r}, "
                "mapping=...)",
                table=name,
            )
        return self._typed(name, mapping, row_type, durability, timeout, follows=True)

    def kept_mapping(self, name: str) -> Mapping | None:
        """Returns the mapping that a table keeps; None if it keeps none. Raises TableNotFoundError.

        Raises MappingError if a later version of rowlock wrote it.
        """
        check_table_name(name)
        # What this client knows of it may be old.
        self._servers.regions.forget_table(name)
        text = kept_mapping_text(self._servers, name, self._timeout_s)
        if not text:
            return None
        # Here, because pyarrow is slow to import.
        from rowlock.mapping import parsed_kept

        return parsed_kept(text, name)

    def _typed(
        self,
        name: str,
        mapping: Mapping,
        row_type: type[Row] | None,
        durability: Durability | None,
        timeout: float | None,
        *,
        follows: bool,
    ) -> TypedTable[Any]:
        with Uninterrupted():
            from rowlock._core.table_mapping import TableMapping
            from rowlock.typed_table import TypedTable

        view = View(name, self._timeout_s, bytes).with_options(durability, timeout)
        return TypedTable(self._servers, view, TableMapping(name, mapping, row_type, follows=follows))
