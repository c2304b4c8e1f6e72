"""How much of a block a scan wants, judged by one block of a file, which is like the others."""

from __future__ import annotations

from typing import NamedTuple

from rowlock_regionserver.sources import LinesWanted
from rowlock_regionserver.storefile.wide_directory import Directory
from rowlock_regionserver.storefile.wide_form import ROWS_CHUNK
from rowlock_regionserver.storefile.wide_lines import places_of

# Of a block that two batches share the first one reads all, and keeps it for the second. The smallest batch of which
# the rows stay unread (scan/scanner.py) is twice as large, in row form, so batches mostly end with a block.
_UNREAD_BLOCK_BYTES_MAX = 1 << 20
# Where plain values are less of what is answered, it may be sent as it is stored (scan/compressed_rows.py).
_PLAIN_SHARE_MIN = 0.75


class Shares(NamedTuple):
    """How much of a block is rows and wanted columns: of its bytes on the disk, and of those before compression.

    `raw_keys`: how much of the latter are rows, timestamps and write numbers of the lines.
    `are_plain`: each of these columns has a value of one length for each line, stored as it is, and no chunk beside it;
    and these values are most of the bytes.
    `may_stay_unread`: then all columns that are wanted are there, not too many, and the block is small.
    """

    stored: float
    raw: float
    raw_keys: float
    are_plain: bool
    may_stay_unread: bool


def shares_of(directory: Directory, wanted: LinesWanted) -> Shares:
    """Returns the shares of a block; those of the other blocks of its file are alike."""
    form, starts, raw_bytes = directory.form, directory.starts, directory.raw_bytes
    columns = [form.columns[place] for place in places_of(directory, wanted)]
    numbers = [column.values for column in columns]
    value_bytes = sum([raw_bytes[number] for number in numbers])
    if not wanted.without_rows:
        numbers.append(ROWS_CHUNK)
    wanted_bytes = sum([raw_bytes[number] for number in numbers])
    are_plain = value_bytes > _PLAIN_SHARE_MIN * wanted_bytes and all(
        directory.is_plain(column.values) and len(column.numbers()) == 1 for column in columns
    )
    has_all = wanted.columns is None or wanted.columns <= form.place_of.keys()
    return Shares(
        sum([starts[number + 1] - starts[number] for number in numbers]) / starts[-1],
        wanted_bytes / sum(raw_bytes),
        sum([raw_bytes[number] for number in form.key_chunks]) / sum(raw_bytes),
        are_plain,
        are_plain
        and has_all
        and len(form.columns) <= wanted.unread_columns_max
        and sum(raw_bytes) <= _UNREAD_BLOCK_BYTES_MAX,
    )
