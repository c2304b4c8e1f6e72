"""Which features a server has, by the count of features that it announces (ServerInfoResponse.protocol). No I/O.

The count is None if the server was not asked yet. Then a call that an earlier version can refuse is made, and one that
it would misunderstand is not.
"""

from __future__ import annotations

from rowlock.errors import InvalidArgumentError

# How many features of rowlock.v1 this client knows.
PROTOCOL = 11

# The first counts that include a feature:
ROWS_PROTOCOL = 2  # rows in bulk batches
FILTERED_PROTOCOL = 4  # the cells of filters in the answers to conditions
_STATUS_PROTOCOL = 4
PUT_ROWS_PROTOCOL = 6  # puts in columns
OPEN_SCAN_PROTOCOL = 6  # scans that point requests open
_REGIONS_PROTOCOL = 7  # splits and merges
_CHANGES_PROTOCOL = 9  # change feeds
VALUES_PROTOCOL = 10  # puts of a row as RowValues


def has_region_calls(protocol: int | None) -> bool:
    """Returns whether a server may list, split and merge regions."""
    return protocol is None or protocol >= _REGIONS_PROTOCOL


def check_has_status(protocol: int | None, address: str) -> None:
    """Raises InvalidArgumentError if the server is known to have no status."""
    if protocol is not None and protocol < _STATUS_PROTOCOL:
        raise InvalidArgumentError(f"the server at {address} is of an earlier version and can't show its status")


def check_has_changes(protocol: int | None, address: str) -> None:
    """Raises InvalidArgumentError if the server is known to have no change feeds."""
    if protocol is not None and protocol < _CHANGES_PROTOCOL:
        raise InvalidArgumentError(f"the server at {address} is of an earlier version and has no change feeds")
