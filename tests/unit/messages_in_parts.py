"""For tests of messages of scans that are sent in parts."""

from __future__ import annotations

import pytest
from rowlock_regionserver.rpc.messages import scan_batches


def send_every_table_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes messages of tables refer to the tables' memory, however small they are, and however large that is."""
    monkeypatch.setattr(scan_batches, "PART_BYTES_MIN", 0)
    monkeypatch.setattr(scan_batches, "HELD_SHARE_MAX", 1 << 40)
