from __future__ import annotations

import os
from pathlib import Path

import pytest
from rowlock.errors import InvalidArgumentError
from rowlock.spark.one_query import pushable

_FRAME = bytes(16)


def test_the_filters_of_the_first_query_are_pushed_in_one_order_for_all(tmp_path: Path) -> None:
    first = pushable(_FRAME, ["a", "b"], tmp_path)
    assert sorted(first) == ["a", "b"]
    assert pushable(_FRAME, ["b", "a"], tmp_path) == first
    assert pushable(_FRAME, ["c", "b", "0", "a"], tmp_path) == first
    assert pushable(b"other", ["c"], tmp_path) == ["c"]


def test_after_a_query_without_filters_none_are_pushed(tmp_path: Path) -> None:
    assert pushable(_FRAME, [], tmp_path) == []
    assert pushable(_FRAME, ["a"], tmp_path) == []


@pytest.mark.parametrize(("first", "second"), [(["a"], ["b"]), (["a"], []), (["a", "b"], ["a", "c"])])
def test_a_query_that_lacks_a_filter_of_the_first_is_refused(
    tmp_path: Path, first: list[str], second: list[str]
) -> None:
    pushable(_FRAME, first, tmp_path)
    with pytest.raises(InvalidArgumentError, match="this one lacks some of them"):
        pushable(_FRAME, second, tmp_path)


def test_old_dataframes_are_forgotten(tmp_path: Path) -> None:
    pushable(_FRAME, ["a"], tmp_path)
    [path] = tmp_path.iterdir()
    os.utime(path, (0, 0))
    pushable(b"other", ["b"], tmp_path)
    pushable(_FRAME, ["c"], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_folder_is_the_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    pushable(_FRAME, ["a"])
    [folder] = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    folder.rename(tmp_path / "rowlock-pushdown-12345")
    with pytest.raises(InvalidArgumentError, match="belongs to another user"):
        pushable(_FRAME, ["a"])


def test_a_link_in_place_of_the_folder_is_refused_and_nothing_behind_it_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that another user left in /tmp once made every old file of the folder behind it go."""
    behind = tmp_path / "behind"
    behind.mkdir()
    old = behind / "old"
    old.write_text("kept")
    os.utime(old, (0, 0))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (temporary / f"rowlock-pushdown-{os.getuid()}").symlink_to(behind)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    with pytest.raises(InvalidArgumentError, match="is no folder"):
        pushable(_FRAME, ["a"])
    assert old.read_text() == "kept"


def test_a_folder_that_can_t_be_written_to_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pushdown=true .* Set TMPDIR"):
        pushable(_FRAME, ["a"], tmp_path / "missing")
