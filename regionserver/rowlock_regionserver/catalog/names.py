"""The rules for names and settings of tables and families. Table names are checked before any other use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rowlock_proto.shown_names import name_text

from rowlock_regionserver.cells import Family
from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError

TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
# A named snapshot is read as the table of this prefix and its name.
SNAPSHOT_PREFIX = "@"
FAMILY_NAME_BYTES_MAX = 127
FAMILIES_MAX = 1000
FAMILY_NUMBER_MAX = (1 << 16) - 1  # the log has two bytes for it (wal/mutation.py)
BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 4 * KIB, 4 * MIB
VERSIONS_MAX = (1 << 31) - 1


def check_table_name(name: str) -> None:
    """Raises InvalidRequestError for a name outside the pattern."""
    if not TABLE_NAME.fullmatch(name):
        shown = name if len(name) <= 64 else name[:64] + "…"
        raise InvalidRequestError(
            f"{shown!r} is not a table name: use up to 255 letters, digits, '_', '.' and '-', not '.' or '-' first"
        )


def check_snapshot_name(name: str) -> None:
    """Raises InvalidRequestError for a name outside the pattern, which is that of table names."""
    if not TABLE_NAME.fullmatch(name):
        shown = name if len(name) <= 64 else name[:64] + "…"
        raise InvalidRequestError(
            f"{shown!r} is not a snapshot name: use up to 255 letters, digits, '_', '.' and '-', not '.' or '-' first"
        )


def check_families(families: Sequence[Family], table: str) -> None:
    """Raises an error for no families, duplicates, names outside HBase's rules, and settings out of range."""
    if not families:
        raise InvalidRequestError(f"table {table!r} needs at least one column family", table=table)
    if len(families) > FAMILIES_MAX:
        raise LimitExceededError(
            f"table {table!r} would have {len(families)} families, more than {FAMILIES_MAX}",
            limit="families_max",
            limit_value=FAMILIES_MAX,
            found=len(families),
            table=table,
        )
    seen: set[bytes] = set()
    for family in families:
        if family.name in seen:
            raise InvalidRequestError(
                f"family {name_text(family.name)} is named twice for table {table!r}", table=table
            )
        seen.add(family.name)
        check_family_settings(family, table)


def check_family_settings(family: Family, table: str) -> None:
    """Raises InvalidRequestError for an invalid name or setting; the message has the valid range."""
    name = family.name
    problem = None
    if not name:
        problem = "its name is empty"
    elif len(name) > FAMILY_NAME_BYTES_MAX:
        problem = f"its name has {len(name)} bytes, more than {FAMILY_NAME_BYTES_MAX}"
    elif name.startswith(b".") or any(byte < 32 or byte == 127 or byte in b":/\\" for byte in name):
        problem = "a family name can't contain control characters, ':', '/' or '\\', or start with '.'"
    elif not 1 <= family.versions <= VERSIONS_MAX:
        problem = f"versions is {family.versions}; it must be 1 to {VERSIONS_MAX}"
    elif not 0 <= family.min_versions <= family.versions:
        problem = f"min_versions is {family.min_versions}; it must be 0 to versions = {family.versions}"
    elif family.time_to_live_ms < 0:
        problem = f"time_to_live_ms is {family.time_to_live_ms}; it must be positive, or 0 for forever"
    elif not BLOCK_BYTES_MIN <= family.block_bytes <= BLOCK_BYTES_MAX:
        problem = f"block_bytes is {family.block_bytes}; it must be {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}"
    if problem is not None:
        raise InvalidRequestError(
            f"family {name[:128]!r} of table {table!r}: {problem}", table=table, family=name[:128]
        )
