"""Client and server write a column in messages in the same way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock._codec.escapes import column_text as client_text
from rowlock_regionserver.escapes import column_text as server_text


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


@given(st.binary(max_size=120), st.binary(max_size=120))
def test_client_and_server_agree(family: bytes, qualifier: bytes) -> None:
    assert client_text(family, qualifier) == server_text(family, qualifier)
