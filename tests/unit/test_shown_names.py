"""Rows and columns in messages of client and server."""

from __future__ import annotations

import pytest
from rowlock_proto.shown_names import column_text, row_text


@pytest.mark.parametrize(
    ("family", "qualifier", "text"),
    [
        (b"f", b"x", "f:x"),
        (b"f", b"", "f:"),
        ("größe".encode(), b"\xff\x00", r"größe:\xff\x00"),
        (b"f", b"a\\b\n", r"f:a\\b\x0a"),
        (b"f", b"q" * 101, f"f:{'q' * 100}... (101 bytes)"),
    ],
)
def test_a_column_is_its_family_and_its_qualifier(family: bytes, qualifier: bytes, text: str) -> None:
    assert column_text(family, qualifier) == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (b"UA|1545", "'UA|1545'"),
        (b"", "''"),
        (b"a\\\xff\n", r"'a\\\xff\x0a'"),
        (b"r" * 64, f"'{'r' * 64}'"),
        (b"r" * 65, f"'{'r' * 64}'..."),
    ],
)
def test_a_row_is_in_quotation_marks(row: bytes, text: str) -> None:
    assert row_text(row) == text
