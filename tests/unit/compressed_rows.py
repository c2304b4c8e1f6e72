"""For tests of scans that take rows compressed."""

from __future__ import annotations

import pytest
from rowlock_regionserver.scan import compressed_rows, scanner


def take_every_row_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes scans answer compressed rows whatever their size, and although plain ones may be smaller."""
    monkeypatch.setattr(scanner, "COMPRESSED_ROWS_MIN", 0)
    monkeypatch.setattr(scanner, "COMPRESSED_BYTES_MIN", 0)
    monkeypatch.setattr(compressed_rows, "SHRUNK_MAX", 1e9)
