"""The client's calls on change feeds (asyncio)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowlock._core.change_requests import newest_request, offset_of
from rowlock._core.features import check_has_changes
from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._transport import methods
from rowlock._uninterrupted import Uninterrupted
from rowlock.aio._transport.servers import Servers

if TYPE_CHECKING:
    from rowlock.aio.change_feed import ChangeFeed


class ChangeCalls:
    """The part of Client for change feeds."""

    # Set by SessionCalls.
    _servers: Servers
    _timeout_s: float

    def changes(
        self, table: str, since: Mapping[int, int] | Mapping[str, int] | None = None, *, follow_s: float = 0
    ) -> ChangeFeed:
        """Returns the changes of a table whose property `changes_retained_hours` is set, as Arrow record batches.

        since: the offset of an earlier feed, or of changes_offset; None: begins with the oldest change that is
        retained. follow_s: the feed waits for further changes when it has read all, and ends when none came for this
        many seconds; math.inf: it never ends. 0: it ends with what was published when it came to each region.
        docs/changes.md.

        Reading it raises ChangesExpiredError if changes after the offset are gone, InvalidArgumentError if the table
        has no feed or the offset is not one of this table, and TableNotFoundError.
        """
        # Here, because it imports Arrow.
        with Uninterrupted():
            from rowlock.aio.change_feed import ChangeFeed

        check_has_changes(self._servers.catalog_protocol, self._servers.catalog_address)
        return ChangeFeed(self._servers, table, since, follow_s, self._timeout_s)

    async def changes_offset(self, table: str) -> dict[int, int]:
        """Returns the current offset: a feed since it has every change that is acknowledged after this call.

        Take it before a scan of the whole table, to follow the table from there. Raises as `changes`.
        """
        check_has_changes(self._servers.catalog_protocol, self._servers.catalog_address)
        request = newest_request(table)
        return offset_of(
            await self._servers.call(methods.READ_CHANGES, request, self._timeout_s, work_s=TABLE_OPERATION_S)
        )
