"""For tests of scans whose batches read their own rows."""

from __future__ import annotations

import pytest
from rowlock_regionserver.scan import compressed_rows, scanner
from rowlock_regionserver.storefile import shares, stored_block


def leave_every_row_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets small batches of few blocks read their own rows, whatever is beside their values; sends none compressed."""
    monkeypatch.setattr(scanner, "COMPRESSED_ROWS_MIN", 0)
    monkeypatch.setattr(scanner, "COMPRESSED_BYTES_MIN", 0)
    monkeypatch.setattr(scanner, "UNREAD_BYTES_MIN", 0)
    monkeypatch.setattr(stored_block, "_IN_PLACE_BLOCKS_MIN", 1)
    monkeypatch.setattr(stored_block, "MOST_SHARE_MIN", 0)
    monkeypatch.setattr(shares, "_PLAIN_SHARE_MIN", 0)
    monkeypatch.setattr(compressed_rows, "SHRUNK_MAX", 0)
