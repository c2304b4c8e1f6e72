"""Settings are read from the command line and from TOML files; the list has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.__main__ import main
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.settings import config_of, settings_help


def test_a_file_has_settings_and_later_ones_override_it(tmp_path: Path) -> None:
    file = tmp_path / "rowlock=1.toml"
    file.write_text('# A small server.\nmemory = "64MiB"\nscans_open_max = 7\nflush_threads = 2\n')
    config = config_of(["scans_open_max=5", str(file), "flush_threads=3"])
    assert (config.memory, config.scans_open_max, config.flush_threads) == (64 * MIB, 7, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "scan_open_max = 7",
            "rowlock.toml: scan_open_max: no such setting (did you mean 'scans_open_max'?); the settings are ",
        ),
        ("[memory]\nscans = 7", "memory must be a number or a string"),
        ("locks_max = true", "locks_max must be a number or a string"),
        ("scans_open_max = -1", "'scans_open_max=-1' is not NAME=VALUE"),
        ('"a=b" = 1', "'a=b=1' is not NAME=VALUE"),
        ("scans_open_max = ", "is not a TOML file"),
        ("# \udcff", "is not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rowlock.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"--config .*rowlock\.toml") as caught:
        config_of([str(file)])
    assert message in str(caught.value)


def test_an_absent_file_and_one_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="can't read the file: No such file"):
        config_of([str(tmp_path / "absent.toml")])
    with pytest.raises(ValueError, match=r"NAME=VALUE, help, or a file whose name ends with \.toml"):
        config_of(["memory"])


def test_the_list_has_each_setting_with_a_default_that_may_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in settings_help().splitlines()[4:]]
    assert [words[0] for words in lines] == list(Config.__slots__)
    defaults = config_of([])
    for name, default, _, *what in lines:
        assert what, f"{name} has no description"
        assert getattr(config_of([f"{name}={default}"]), name) == getattr(defaults, name), name
    units = {words[0]: words[2] for words in lines}
    assert (units["memory"], units["scan_lease_ms"], units["log_quick_sync_us"]) == ("bytes", "ms", "us")
    assert (units["worker_threads"], units["long_work_pause_percent"]) == ("-", "%")
    with pytest.raises(SystemExit) as ended:
        main(["--config", "help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.splitlines()[4].split()[0] == "row_bytes_max"


def test_text_is_taken_as_it_is_and_may_be_a_list_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rowlock.toml"
    file.write_text('procedures = ["a", "b.c"]\n')
    assert config_of([]).procedures == ""
    assert config_of([str(file)]).procedures == "a,b.c"
    assert config_of([str(file), "procedures=d"]).procedures == "d"
    assert config_of([str(file), "procedures=none"]).procedures == ""
    file.write_text("procedures = [1]\n")
    with pytest.raises(ValueError, match="procedures must be a number or a string"):
        config_of([str(file)])
    file.write_text('locks = ["a"]\n')
    with pytest.raises(ValueError, match="locks must be a number or a string"):
        config_of([str(file)])
