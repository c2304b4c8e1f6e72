"""Client and server write rows and columns in messages in the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock._codec.escapes import column_text as client_text
from rowlock._codec.escapes import row_text as client_row_text
from rowlock_regionserver.escapes import column_text as server_text
from rowlock_regionserver.escapes import row_text as server_row_text


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
    assert client_text(family, qualifier) == server_text(family, qualifier) == text


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
    assert client_row_text(row) == server_row_text(row) == text


@given(st.binary(max_size=120), st.binary(max_size=120))
def test_client_and_server_agree(family: bytes, qualifier: bytes) -> None:
    assert client_text(family, qualifier) == server_text(family, qualifier)
    assert client_row_text(qualifier) == server_row_text(qualifier)
