from __future__ import annotations

import pickle

import pytest
from rowlock import MappingError, column
from rowlock.errors import InvalidArgumentError
from rowlock.spark.options import READ_OPTIONS, ReadOptions, checked_names, read_options

_MAPPING = "id STRING :key, delay INT info:delay, dest STRING info:dest"


def _options(**given: str) -> ReadOptions:
    return read_options({"server": "db:7460", "table": "t", **given})


def test_only_server_and_table_are_needed() -> None:
    options = _options()
    assert (options.server, options.table, options.mapping) == ("db:7460", "t", None)
    assert options.row_range == (b"", b"")
    assert [options.is_latest, options.malformed_is_null, options.is_mapped_only] == [False] * 3
    assert options.filter is None


def test_path_names_the_table_too() -> None:
    assert read_options({"server": "db:7460", "path": "t"}).table == "t"
    with pytest.raises(InvalidArgumentError, match="two tables are given, 't' by the option table and 'u'"):
        _options(path="u")


def test_the_server_is_by_default_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_SERVER", "db:1234,other:1234")
    assert read_options({"table": "t"}).server == "db:1234,other:1234"
    monkeypatch.delenv("ROWLOCK_SERVER")
    with pytest.raises(InvalidArgumentError, match=r"no server is given.*before the session starts.*SELECT"):
        read_options({"table": "t"})


def test_lost_options_of_create_table_are_explained() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no table is given.*CREATE TEMPORARY VIEW"):
        read_options({"server": "db:7460"})


def test_names_of_options_are_known_in_any_case() -> None:
    assert checked_names({"Server": "x", "TABLE": "t"}, READ_OPTIONS) == {"server": "x", "table": "t"}
    with pytest.raises(
        InvalidArgumentError, match=r"'tabel' \(did you mean 'table'\?\); the read options are server, table,"
    ):
        checked_names({"tabel": "t"}, READ_OPTIONS)
    with pytest.raises(InvalidArgumentError, match="the write-only options are create, duplicates, durability, nulls"):
        checked_names({"durabilty": "os"}, READ_OPTIONS)


def test_properties_of_create_table_are_ignored() -> None:
    assert _options(**{"option.table": "t", "owner": "me", "provider": "rowlock"}) == _options()


def test_rows_are_selected_by_bounds_or_a_prefix_with_escapes() -> None:
    assert _options(start=r"a\x00", stop="b").row_range == (b"a\0", b"b")
    assert _options(prefix=r"\xff\x01").row_range == (b"\xff\x01", b"\xff\x02")
    for wrong, message in (
        ({"prefix": "a", "stop": "b"}, "prefix excludes"),
        ({"start": "b", "stop": "a"}, "sorts before start"),
        ({"start": r"\y"}, "option start can't be parsed: bad escape"),
        ({"start": "\ud800"}, "option start can't be parsed: bad character"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            _options(**wrong)


def test_conditions_are_joined_by_and() -> None:
    where = _options(where="info:delay as int > 15 AND info:dest = a and info:x is absent").where
    assert where is not None
    assert len(where.message.all.filters) == 3
    with pytest.raises(InvalidArgumentError, match=r"option where can't be parsed.*Join conditions"):
        _options(where="nonsense")
    with pytest.raises(InvalidArgumentError, match="'info:dest =' has no value"):
        _options(where="info:dest = ")
    empty = _options(where="info:dest = ''").where
    assert empty is not None
    assert empty.message == (column("info:dest") == b"").message


def test_a_mapping_is_parsed_and_excludes_infer() -> None:
    assert _options(mapping=_MAPPING, timestamps="delay, dest").timestamps == ("delay", "dest")
    with pytest.raises(MappingError, match="has no key"):
        _options(mapping="a INT f:a")
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        _options(mapping=_MAPPING, infer="10")
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        _options(mapping="none", infer="10")
    assert _options().uses_kept_mapping
    for given in ({"mapping": _MAPPING}, {"mapping": "none"}, {"infer": "10"}):
        assert not _options(**given).uses_kept_mapping
    assert _options(mapping=" None").mapping is None
    assert _options(infer="10").infer_rows == 10


def test_a_named_snapshot_is_read_as_a_table() -> None:
    options = _options(snapshot="@noon")
    assert (options.table, options.snapshot_of, options.snapshot_mode) == ("@noon", "t", "token")
    alone = read_options({"server": "db:7460", "snapshot": "@noon"})
    assert (alone.table, alone.snapshot_of) == ("@noon", "")
    assert read_options({"server": "db:7460", "path": "t", "snapshot": "@noon"}).snapshot_of == "t"


def test_snapshot_is_a_word_or_an_id() -> None:
    assert _options(snapshot="Latest").is_latest
    assert _options(snapshot="00" * 16).snapshot_id == bytes(16)
    for wrong in ("newest", "00" * 15):
        with pytest.raises(InvalidArgumentError, match="'token', 'latest', the id"):
            _options(snapshot=wrong)


def test_a_count_is_written_in_decimal_digits() -> None:
    for wrong in ("²", "-1", "0", "ten", "9" * 20, "9" * 5000):
        with pytest.raises(InvalidArgumentError, match="infer"):
            _options(infer=wrong)


_MANY = {"partition_bytes": "999999999999999999g"}


def test_sizes_have_units() -> None:
    options = _options(partition_bytes="64 MiB", batch_bytes="1048576")
    assert (options.part_bytes, options.batch_bytes) == (64 << 20, 1 << 20)
    for wrong in ({"partition_bytes": "0"}, {"partition_bytes": "many"}, {"batch_bytes": "17m"}, _MANY):
        with pytest.raises(InvalidArgumentError, match=r"the option (partition|batch)_bytes must be"):
            _options(**wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("malformed", "drop"),
        ("rows", "some"),
        ("timeout", "soon"),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("infer", "0"),
        ("infer", "-1"),
    ],
)
def test_an_invalid_value_is_refused(name: str, wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the option {name} must be"):
        _options(**{name: wrong})


@pytest.mark.parametrize("value", ["true", "false"])
def test_the_option_pushdown_of_earlier_versions_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no option 'pushdown'.*lose rows.*\.option\('filter', "):
        _options(pushdown=value)


def test_options_can_be_pickled() -> None:
    options = _options(mapping=_MAPPING, where="info:dest = x", malformed="null", rows="mapped", timeout="5")
    again = pickle.loads(pickle.dumps(options))
    assert again.mapping == options.mapping
    assert options.where is not None
    assert again.where.message == options.where.message
    assert (again.malformed_is_null, again.is_mapped_only, again.timeout_s) == (True, True, 5.0)
