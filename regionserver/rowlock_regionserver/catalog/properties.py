"""The property of a table that no part of the server uses: its mapping, which says how clients type the cells.

The server keeps it as text for them and does not interpret it. All other properties are settings of compactions.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.table import Table

MAPPING = "mapping"
MAPPING_BYTES_MAX = 64 * KIB


def used_properties(table: Table) -> dict[str, str]:
    """Returns the properties that the server uses."""
    return {name: value for name, value in table.properties if name != MAPPING}


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
