from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rowlock._codec.escapes import EscapeError, unescaped
from rowlock_proto.shown_names import escaped


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain text 5", "plain text 5"),
        ("Zürich 北京".encode(), "Zürich 北京"),
        (b"\x00\x01\xff", r"\x00\x01\xff"),
        (b"tab\there\n", r"tab\x09here\x0a"),
        (b"back\\slash", r"back\\slash"),
        (b"\\x41", r"\\x41"),
        (b"\xc3", r"\xc3"),
        ("\u200b\u2028".encode(), r"\xe2\x80\x8b\xe2\x80\xa8"),
        ("\ud800".encode("utf-8", "surrogatepass"), r"\xed\xa0\x80"),
    ],
)
def test_bytes_have_one_text_and_it_reads_back(data: bytes, text: str) -> None:
    assert escaped(data) == text
    assert unescaped(text) == data


@given(st.binary())
def test_text_of_any_bytes_reads_back_and_fits_on_a_line(data: bytes) -> None:
    text = escaped(data)
    assert unescaped(text) == data
    assert text.isprintable()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\\")))
def test_text_without_a_backslash_is_its_utf_8(text: str) -> None:
    assert unescaped(text) == text.encode()


def test_hexadecimal_digits_may_be_of_either_case() -> None:
    assert unescaped(r"\xAb\xaB") == b"\xab\xab"


def test_undecodable_arguments_are_the_bytes_that_they_were() -> None:
    assert unescaped(b"a\xff".decode("utf-8", "surrogateescape")) == b"a\xff"


@pytest.mark.parametrize(
    ("text", "position"), [("\\", 0), ("ab\\", 2), (r"a\n", 1), (r"\x", 0), (r"\x4", 0), (r"\xg0", 0), (r"\\\q", 2)]
)
def test_a_malformed_escape_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(EscapeError, match=f"at character {position + 1} ") as caught:
        unescaped(text)
    assert caught.value.position == position


def test_messages_quote_input_as_it_was_typed() -> None:
    for text, quoted in ((r"\xZZ", r"'\xZZ'"), (r"a 'b\q", r'''"a 'b\q"'''), ("a\n\\", r"'a\n\\'")):
        with pytest.raises(EscapeError) as caught:
            unescaped(text)
        assert f" of {quoted}: " in str(caught.value)


def test_a_lone_surrogate_is_refused_with_its_position() -> None:
    for half in (0xD800, 0xDC7F, 0xDD00, 0xDFFF):
        with pytest.raises(EscapeError, match="bad character at character 3 "):
            unescaped("ab" + chr(half))
