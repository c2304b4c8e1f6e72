"""The options of a write job: their defaults, and the errors for invalid ones."""

from __future__ import annotations

import pytest
import rowlock
from rowlock.errors import InvalidArgumentError, MappingError
from rowlock.spark.write_options import BATCH_BYTES_MAX, write_options

_SERVER = {"server": "127.0.0.1:7460", "table": "t"}


def test_defaults_skip_nulls_and_let_the_last_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_SERVER", "127.0.0.1:1,127.0.0.1:2")
    found = write_options({"path": "t"})
    assert (found.server, found.table) == ("127.0.0.1:1,127.0.0.1:2", "t")
    assert (found.mapping, found.nulls, found.duplicates, found.durability) == (None, "skip", "last", None)
    assert (found.creates, dict(found.families), found.timeout_s) == (False, {}, 60.0)


def test_names_and_words_are_taken_in_either_case() -> None:
    given = {"Nulls": "DELETE", "DUPLICATES": "Fail", "Durability": "OS", "batch_bytes": "2KiB", "timeOut": "1.5"}
    found = write_options({**_SERVER, **given})
    assert (found.nulls, found.duplicates, found.durability) == ("delete", "fail", "os")
    assert (found.batch_bytes, found.timeout_s) == (2048, 1.5)


def test_families_to_create_are_given_as_on_the_command_line() -> None:
    assert write_options({**_SERVER, "create": "True"}).creates
    found = write_options({**_SERVER, "create": "info stats,versions=3,time-to-live=7d"})
    assert found.creates
    assert found.families == {
        "info": rowlock.Family(),
        "stats": rowlock.Family(versions=3, time_to_live_ms=7 * 86_400_000),
    }


def test_read_only_options_are_ignored_for_the_sake_of_views() -> None:
    assert write_options({**_SERVER, "snapshot": "latest", "filter": "n = 5"}).table == "t"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nul": "skip"}, "option 'nul'.*nulls, duplicates"),
        ({"nulls": "keep"}, "skip or delete, not 'keep'"),
        ({"duplicates": "first"}, "last or fail"),
        ({"durability": "none"}, "fsync, os, async, skip, not 'none'"),
        ({"batch_bytes": "0"}, "batch_bytes must be a number of bytes.*not '0'"),
        ({"batch_bytes": "2 apples"}, "batch_bytes must be a number of bytes"),
        ({"batch_bytes": str(BATCH_BYTES_MAX + 1)}, f"at most {BATCH_BYTES_MAX}"),
        ({"timeout": "0"}, "timeout must be a number of seconds"),
        ({"timeout": "soon"}, "timeout must be a number of seconds"),
        ({"create": "info,colour=red"}, "the option create .*colour"),
        ({"create": "info info"}, "each once"),
        ({"create": " "}, "true, false, or families"),
        ({"create": "info,versions=0"}, "versions must be 1 to"),
        ({"path": "u"}, "two tables are given, 't' .* 'u'"),
        ({"table": ""}, "no table is given"),
        ({"server": "host:no port"}, "no port"),
    ],
)
def test_an_invalid_option_is_refused_with_the_valid_values(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        write_options({**_SERVER, **wrong})


def test_a_malformed_mapping_is_refused() -> None:
    with pytest.raises(MappingError, match="can't be parsed"):
        write_options({**_SERVER, "mapping": "id STRING"})


def test_options_that_spark_does_not_pass_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLOCK_SERVER", raising=False)
    with pytest.raises(InvalidArgumentError, match=r"CREATE TABLE.*INSERT INTO t WITH.*TEMPORARY VIEW"):
        write_options({})
