# Made from client/rowlock/aio/_transport/kept_mapping.py by tools/async_to_sync.py: change that, then `make faces`.
"""Looks up the mapping that a table keeps (threads). It comes with the location of the table's regions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rowlock._codec.columns import Text
from rowlock._core.retry import Attempts, Kind
from rowlock._core.view import View
from rowlock._transport.servers import Servers
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import FamilyNotFoundError, FilterTypeError, MappingError, RowlockError

if TYPE_CHECKING:
    from rowlock._core.table_mapping import InUse, TableMapping
    from rowlock._core.typed_rows import RowCodec
    from rowlock.mapping import Mapping

T = TypeVar("T")

# What a call may raise because the kept mapping has changed since: by itself, or because a family was dropped. Nothing
# was changed then.
STALE_MAPPING = (MappingError, FilterTypeError, FamilyNotFoundError)


def kept_mapping_text(servers: Servers, table: str, timeout_s: float) -> str:
    """Returns the table's mapping as text, empty if it keeps none: from the cache of regions, or by a request.

    Raises TableNotFoundError, and DeadlineError or ServerUnavailableError after the timeout.
    """
    known = servers.regions.mapping_text(table)
    if known is not None:
        return known
    attempts = Attempts(time.monotonic(), timeout_s, Kind.READ)
    while True:
        try:
            return servers.region_of(table, b"\0", attempts.deadline).mapping_text
        except RowlockError as error:
            failure = error
        time.sleep(attempts.failed(failure, time.monotonic(), was_sent=False))


def kept_mapping(servers: Servers, view: View[Text]) -> Mapping | None:
    """Returns the table's mapping; None if it keeps none. Raises as kept_mapping_text."""
    # Here, because pyarrow is slow to import.
    with Uninterrupted():
        from rowlock.mapping import parsed_kept

    text = kept_mapping_text(servers, view.table, view.timeout_s)
    return parsed_kept(text, view.table) if text else None


def mapping_in_use(servers: Servers, view: View[Text], mapping: TableMapping) -> InUse:
    """Returns a typed table's mapping, compared with what the table keeps. Raises MappingError if they disagree."""
    return mapping.compared(kept_mapping_text(servers, view.table, view.timeout_s))


def _newer_mapping(
    servers: Servers, view: View[Text], mapping: TableMapping, used: InUse, error: RowlockError
) -> InUse:
    """Looks the kept mapping up again after an error with the one that was used. Raises the error if it is the same."""
    servers.regions.forget_table(view.table)
    found = mapping_in_use(servers, view, mapping)
    if found is used:
        raise error
    return found


def compare_again(servers: Servers, view: View[Text], mapping: TableMapping) -> None:
    """Looks the kept mapping up after STALE_MAPPING, so that the next call goes by it, if the server can be reached."""
    servers.regions.forget_table(view.table)
    with contextlib.suppress(RowlockError):
        mapping_in_use(servers, view, mapping)


def encoded_by_mapping(servers: Servers, view: View[Text], mapping: TableMapping, encode: Callable[[RowCodec], T]) -> T:
    """Returns what `encode` makes of the caller's values; with the kept mapping, if that has changed since."""
    in_use = mapping_in_use(servers, view, mapping)
    while True:
        try:
            return encode(in_use.codec)
        except MappingError as error:
            in_use = _newer_mapping(servers, view, mapping, in_use, error)


def read_by_mapping(servers: Servers, view: View[Text], mapping: TableMapping, read: Callable[[RowCodec], T]) -> T:
    """Returns what `read` reads; with the kept mapping, if that has changed since."""
    in_use = mapping_in_use(servers, view, mapping)
    while True:
        try:
            return read(in_use.codec)
        except STALE_MAPPING as error:
            in_use = _newer_mapping(servers, view, mapping, in_use, error)


def agreed_mapping(servers: Servers, view: View[Text], mapping: Mapping | str) -> Mapping:
    """Returns a caller's mapping after a comparison with what the table keeps. Raises MappingError."""
    # Here, because pyarrow is slow to import.
    with Uninterrupted():
        from rowlock._core.kept_mapping import agreed
        from rowlock.mapping import as_mapping

    parsed = as_mapping(mapping)
    return agreed(parsed, kept_mapping_text(servers, view.table, view.timeout_s), view.table)
