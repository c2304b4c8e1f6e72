from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from rowlock import Mapping, MappingError
from rowlock.spark.inference import inferred_mapping, mapping_text
from rowlock.spark.options import ReadOptions

_CELLS = pa.schema([(name, pa.binary()) for name in ("row", "family", "qualifier", "value")])


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
    for values, kind in (
        ([b"", "ä\n".encode(), b"15"], "string"),
        ([b"a", (5).to_bytes(8, "big")], "binary"),
        ([b"\xff"], "binary"),
    ):
        rows = [b"%d" % number for number in range(len(values))]
        families, qualifiers = [b"f"] * len(values), [b"q"] * len(values)
        batch = pa.RecordBatch.from_pydict(
            {"row": rows, "family": families, "qualifier": qualifiers, "value": values}, schema=_CELLS
        )
        table: Any = MagicMock()  # Any: all of a table that is asked for is its cells
        table.scan.return_value.__enter__.return_value.to_batches.return_value = [batch]
        mapping = inferred_mapping(table, ReadOptions("h:1", "t"))
        assert [(column.name, column.type) for column in mapping.columns] == [("row", "string"), ("q", kind)]
