"""The command `rowlock-server` without wide blocks: the cells of every flush stay cells.

python -m bench.targets.cell_blocks [arguments of rowlock-server]

It writes the same rows in the other form of blocks, for comparison; any server reads them. Rows that arrive in bulk
have the wide form from the start, so fill its tables by puts.
"""

from __future__ import annotations

import sys

import pyarrow as pa
from rowlock_regionserver.arrow import line_forming


def form_no_lines() -> None:
    """Makes this process form no lines of cells; call it before other modules of the server are imported."""

    def no_lines(table: pa.Table, *_: object) -> tuple[None, pa.Table]:
        return None, table

    line_forming.lines_of = no_lines


if __name__ == "__main__":
    form_no_lines()
    # Modules keep the function that they import by name.
    from rowlock_regionserver.__main__ import main

    main(sys.argv[1:])
