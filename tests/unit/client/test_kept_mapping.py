"""Which mappings agree with one that a table keeps, and to which it may change."""

from __future__ import annotations

import pytest
from rowlock import Mapping, MappingError
from rowlock._core.kept_mapping import agreed, altered, without_families
from rowlock._core.mapping_requests import set_altered_mapping
from rowlock_proto.v1 import catalog_pb2, types_pb2

KEPT = (
    "day DATE :key, carrier STRING :key, n BIGINT :key ordered, delay BIGINT info:delay was INT, "
    "dest STRING info:dest, fare DECIMAL(9,2) stats:fare, at TIMESTAMP :timestamp"
)


def test_a_mapping_without_a_kept_one_and_the_kept_one_agree() -> None:
    given = Mapping(KEPT)
    assert agreed(given, "", "t") is given
    assert agreed(given, KEPT, "t") is given


def test_a_mapping_may_name_few_columns_by_other_names_and_learns_their_former_types() -> None:
    given = Mapping(
        "d DATE :key, c STRING :key, n BIGINT :key ordered, late BIGINT info:delay, where_to STRING info:dest"
    )
    found = agreed(given, KEPT, "t")
    assert found.text == (
        "d DATE :key, c STRING :key, n BIGINT :key ordered, late BIGINT info:delay was INT, where_to STRING info:dest"
    )
    # Without widened columns it stays as it is, to the letter.
    few = Mapping("d DATE :key, c STRING :key, n long :key ordered,  t STRING info:dest text")
    assert agreed(few, KEPT, "t") is few


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("day DATE :key, delay BIGINT info:delay", r"the key has 3 parts, \(day, carrier, n\), and not one part, day"),
        (
            "day STRING :key, carrier STRING :key, n BIGINT :key ordered",
            "the part 'day' of the key is DATE text, and not STRING text",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key",
            "the part 'n' of the key is BIGINT ordered, and not BIGINT text",
        ),
        (
            "day DATE :key, carrier STRING :key ordered, n BIGINT :key ordered",
            "the part 'carrier' of the key is STRING text, and not STRING ordered",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered; separator=#",
            r"the key's separator is '\|', and not '#'",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered, delay INT info:delay",
            "info:delay is BIGINT binary, and not INT binary; it was widened",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered, delay BIGINT info:delay text",
            "info:delay is BIGINT binary, and not BIGINT text",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered, dest BINARY info:dest",
            "info:dest is STRING binary, and not BINARY binary",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered, fare DECIMAL(10,2) stats:fare",
            r"stats:fare is DECIMAL\(9,2\) binary, and not DECIMAL\(10,2\) binary",
        ),
        (
            "day DATE :key, carrier STRING :key, n BIGINT :key ordered, x INT info:x",
            "it has no column info:x; alter_table",
        ),
    ],
)
def test_a_mapping_that_contradicts_the_kept_one_is_refused(given: str, problem: str) -> None:
    with pytest.raises(MappingError, match=problem) as raised:
        agreed(Mapping(given), KEPT, "t")
    assert "table 't' keeps" in str(raised.value)
    assert raised.value.table == "t"


def test_a_separator_that_no_key_has_is_ignored() -> None:
    kept = "k STRING :key, v INT f:v"
    given = Mapping(f"{kept}; separator=#")
    assert agreed(given, kept, "t") is given


def test_a_kept_mapping_of_a_later_version_is_named() -> None:
    with pytest.raises(
        MappingError, match="the mapping that table 't' keeps can't be parsed by this version of rowlock"
    ):
        agreed(Mapping("k STRING :key, v INT f:v"), "k STRING :key, v VECTOR f:v", "t")


def test_an_alter_adds_renames_and_widens_columns_and_remembers_their_types() -> None:
    kept = Mapping(
        "k INT :key, a TINYINT f:a, b FLOAT f:b, c DATE f:c, d DECIMAL(5,2) f:d, e STRING f:e, g INT f:g text"
    )
    new = Mapping(
        "id BIGINT :key, a INT f:a, bb DOUBLE f:b, c TIMESTAMP f:c, d DECIMAL(9,4) f:d, e BINARY f:e, "
        "g BIGINT f:g text, h BOOLEAN f:h, at BIGINT :timestamp"
    )
    once = altered(kept, new, ())
    assert once.text == (
        "id BIGINT :key, a INT f:a was TINYINT, bb DOUBLE f:b was FLOAT, c TIMESTAMP f:c was DATE, "
        "d DECIMAL(9,4) f:d was DECIMAL(5,2), e BINARY f:e, g BIGINT f:g text, h BOOLEAN f:h, at BIGINT :timestamp"
    )
    # Also over several alters, whether or not the new text repeats what was.
    again = Mapping(
        once.text.replace("a INT f:a was TINYINT", "a BIGINT f:a").replace("at BIGINT :timestamp", "x INT f:x")
    )
    assert "a BIGINT f:a was TINYINT was INT," in altered(once, again, ()).text
    repeated = Mapping(once.text.replace("a INT f:a was TINYINT", "a BIGINT f:a was TINYINT was INT"))
    assert "a BIGINT f:a was TINYINT was INT," in altered(once, repeated, ()).text
    # As it is, it may be set again.
    assert altered(once, new, ()).text == once.text


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (
            "k INT :key, c STRING :key, v INT f:v, w STRING g:w",
            r"the key has one part, k, and rows would be lost with 2",
        ),
        (
            "k STRING :key, v INT f:v, w STRING g:w",
            "the part 'k' of the key is INT text, and keys can't become STRING text",
        ),
        ("k INT :key ordered, v INT f:v, w STRING g:w", "keys can't become INT ordered"),
        (
            "k INT :key, v SMALLINT f:v, w STRING g:w",
            "f:v is INT binary, and its cells can't be read as SMALLINT binary",
        ),
        ("k INT :key, v INT f:v text, w STRING g:w", "f:v is INT binary, and its cells can't be read as INT text"),
        ("k INT :key, v INT f:v", "it lacks g:w, whose cells stay and could come back with another type"),
    ],
)
def test_an_alter_that_would_lose_cells_is_refused(new: str, problem: str) -> None:
    kept = Mapping("k INT :key, v INT f:v, w STRING g:w")
    with pytest.raises(MappingError, match=problem):
        altered(kept, Mapping(new), ())


def test_separators_can_not_change_if_keys_have_them() -> None:
    kept = Mapping("a STRING :key, b STRING :key, v INT f:v")
    with pytest.raises(MappingError, match=r"the key's separator is '\|', and can't become '#'"):
        altered(kept, Mapping(kept.text + "; separator=#"), ())
    single = Mapping("a STRING :key, v INT f:v")
    assert altered(single, Mapping(single.text + "; separator=#"), ()).separator == b"#"


def test_columns_leave_with_their_families() -> None:
    kept = Mapping("k INT :key, v INT f:v, w STRING g:w, at TIMESTAMP :timestamp; separator=#")
    assert without_families(kept, [b"x"]) is kept
    assert without_families(kept, [b"g"]).text == "k INT :key, v INT f:v, at TIMESTAMP :timestamp; separator=#"
    # A family that is dropped and set again has no cells, so its columns may have any type.
    assert altered(kept, Mapping("k INT :key, v INT f:v, w INT g:w"), [b"g"]).text == "k INT :key, v INT f:v, w INT g:w"


def test_an_alter_names_the_mapping_that_it_replaces_so_that_two_do_not_overwrite_each_other() -> None:
    table = types_pb2.TableDescriptor(name="t", families=[types_pb2.Family(name=b"f"), types_pb2.Family(name=b"g")])
    table.properties["mapping"] = "k INT :key, v INT f:v, w INT g:w"
    for mapping, dropped, wanted in (
        ("k INT :key, v BIGINT f:v, w INT g:w", [], "k INT :key, v BIGINT f:v was INT, w INT g:w"),
        (None, [b"g"], "k INT :key, v INT f:v"),
        ("None", [], ""),
    ):
        request = catalog_pb2.AlterTableRequest(name="t", drop_families=dropped)
        set_altered_mapping(request, [table], mapping, replaces=False)
        assert request.expected_properties == {"mapping": table.properties["mapping"]}
        assert (request.set_properties.get("mapping", ""), list(request.drop_properties)) == (
            wanted,
            [] if wanted else ["mapping"],
        )
    untouched = catalog_pb2.AlterTableRequest(name="t", drop_families=[b"x"])
    set_altered_mapping(untouched, [table], None, replaces=False)
    assert not untouched.expected_properties
    del table.properties["mapping"]
    first = catalog_pb2.AlterTableRequest(name="t")
    set_altered_mapping(first, [table], "k INT :key, v INT f:v", replaces=False)
    assert first.expected_properties == {"mapping": ""}
