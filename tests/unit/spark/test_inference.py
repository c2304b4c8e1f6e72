from __future__ import annotations

import pytest
from rowlock import Mapping, MappingError
from rowlock.spark.inference import _are_text, mapping_text


def _columns(is_text: dict[bytes, bool], keys_are_text: bool = True) -> list[tuple[str, str, bytes]]:
    mapping = Mapping(mapping_text(is_text, keys_are_text))
    return [(column.name, column.type, column.column) for column in mapping.columns]


def test_columns_are_named_by_their_qualifiers() -> None:
    assert _columns({b"f:b": True, b"f:a": False}, keys_are_text=False) == [
        ("row", "binary", b":"),
        ("a", "binary", b"f:a"),
        ("b", "string", b"f:b"),
    ]


def test_a_qualifier_that_is_not_unique_gets_its_family() -> None:
    found = _columns({b"f:a": True, b"g:A": True, b"f:row": True, b"f:": True, b"f:x`y, z": True})
    assert [name for name, _, _ in found] == ["row", "f:", "f:a", "f:row", "x`y, z", "g:A"]
    assert found[4][2] == b"f:x`y, z"


def test_a_qualifier_that_is_not_text_is_refused() -> None:
    with pytest.raises(MappingError, match=r"column f:\\xff is not UTF-8"):
        mapping_text({b"f:\xff": True}, True)


def test_names_that_spark_can_not_distinguish_are_refused_with_advice() -> None:
    for columns, names in (((b"f:x", b"f:X"), "f:X and f:x"), ((b"f:g:x", b"g:x", b"f:x"), "f:g:x and g:x")):
        with pytest.raises(MappingError, match=f"the columns {names} would both be named .* or give a mapping"):
            mapping_text(dict.fromkeys(columns, True), True)


def test_text_has_no_control_characters() -> None:
    assert _are_text([b"", "ä\n".encode(), b"15"])
    assert not _are_text([b"a", (5).to_bytes(8, "big")])
    assert not _are_text([b"\xff"])
