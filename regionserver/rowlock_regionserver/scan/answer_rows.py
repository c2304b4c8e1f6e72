"""What the rows of a scan's answer may be: a table, rows that are compressed, or rows that are not read yet."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from rowlock_regionserver.scan.compressed_rows import CompressedRows
from rowlock_regionserver.scan.unread_rows import UnreadRows

AnswerRows: TypeAlias = pa.Table | CompressedRows | UnreadRows


def plain_table(rows: AnswerRows) -> pa.Table:
    """Returns rows as a table, read and decompressed."""
    return rows if isinstance(rows, pa.Table) else rows.table()
