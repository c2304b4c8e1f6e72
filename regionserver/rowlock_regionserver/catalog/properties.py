"""The properties of a table that are not settings of compactions.

They are its mapping, from what size on its regions split, and for how long its changes are retained. A table may also
have properties of a later version: this one keeps them and ignores them, and refuses to set them.

The mapping says how clients type the cells. The server keeps it as text for them and does not interpret it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rowlock_regionserver.config import GIB, KIB
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.table import Table

MAPPING = "mapping"
MAPPING_BYTES_MAX = 64 * KIB
SPLIT_REGION_BYTES = "split.region_bytes"
SPLIT_REGION_BYTES_DEFAULT = 10 * GIB
CHANGES_RETAINED_HOURS = "changes_retained_hours"
CHANGES_RETAINED_HOURS_MAX = 366 * 24
_SPLIT_REGION_BYTES_MAX = 1 << 60
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")
_FRACTION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_HOUR_MS = 3600 * 1000
OTHER_PROPERTY_NAMES = (MAPPING, SPLIT_REGION_BYTES, CHANGES_RETAINED_HOURS)


def split_region_bytes(table: Table) -> int:
    """Returns how many bytes of store files a region may have before it is split; 0: any number.

    Raises InvalidRequestError for a property that is not such a number.
    """
    text = dict(table.properties).get(SPLIT_REGION_BYTES)
    if text is None:
        return SPLIT_REGION_BYTES_DEFAULT
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) > _SPLIT_REGION_BYTES_MAX:
        raise InvalidRequestError(
            f"the property {SPLIT_REGION_BYTES!r} of table {table.name!r} must be a whole number of bytes from 0 to "
            f"{_SPLIT_REGION_BYTES_MAX}, where 0 means that regions are never split by size; it is {text[:64]!r}",
            table=table.name,
        )
    return int(text)


def changes_retained_ms(table: Table) -> int:
    """Returns for how many milliseconds the table's change feed retains changes; 0: it has none.

    Raises InvalidRequestError for a property that is not a number of hours.
    """
    text = dict(table.properties).get(CHANGES_RETAINED_HOURS)
    if text is None:
        return 0
    if not _FRACTION.fullmatch(text) or float(text) > CHANGES_RETAINED_HOURS_MAX:
        raise InvalidRequestError(
            f"the property {CHANGES_RETAINED_HOURS!r} of table {table.name!r} must be a number of hours from 0 to "
            f"{CHANGES_RETAINED_HOURS_MAX}, where 0 means that changes are not retained; it is {text[:64]!r}",
            table=table.name,
        )
    hours = float(text)
    return max(1, round(hours * _HOUR_MS)) if hours else 0


def check_properties(table: Table) -> None:
    """Raises InvalidRequestError and LimitExceededError for properties that this module knows."""
    check_mapping(table)
    split_region_bytes(table)
    changes_retained_ms(table)


def check_mapping(table: Table) -> None:
    """Raises LimitExceededError for a mapping that is too long, InvalidRequestError for an empty one."""
    mapping = dict(table.properties).get(MAPPING)
    if mapping is None:
        return
    if not mapping:
        raise InvalidRequestError(
            f"the property {MAPPING!r} of table {table.name!r} is empty; drop it instead", table=table.name
        )
    size = len(mapping.encode())
    if size > MAPPING_BYTES_MAX:
        raise LimitExceededError(
            f"the mapping of table {table.name!r} has {size} bytes, more than mapping_bytes_max = {MAPPING_BYTES_MAX}",
            limit="mapping_bytes_max",
            limit_value=MAPPING_BYTES_MAX,
            found=size,
            table=table.name,
        )


def check_expected(table: Table, expected: Mapping[str, str]) -> None:
    """Raises InvalidRequestError unless the table's properties have these values; an empty one stands for none."""
    properties = dict(table.properties)
    for name, value in expected.items():
        if properties.get(name, "") != value:
            raise InvalidRequestError(
                f"the property {name[:64]!r} of table {table.name!r} has changed since it was read; nothing was "
                "changed: describe the table and repeat the alter if it is still right",
                table=table.name,
            )
