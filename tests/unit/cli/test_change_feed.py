from __future__ import annotations

import json
from pathlib import Path

import pytest
from rowlock import ChangesExpiredError

from tests.unit.cli.recording import Console


class Feed(list[object]):
    """A change feed that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = {1: 5}


def test_the_offset_is_read_from_the_file_and_stored_there(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    console.client.answers["changes"] = Feed()
    assert console.run("changes", "t", "--since", str(file)) == 0
    assert console.run("changes", "t", "--since", str(file)) == 0
    assert [named["since"] for _, _, named in console.client.calls][-1] == {"1": 5}
    assert json.loads(file.read_text()) == {"1": 5}
    assert [each.name for each in tmp_path.iterdir()] == ["offset"]


def test_now_stores_the_offset_of_now(console: Console, tmp_path: Path) -> None:
    console.client.answers["changes_offset"] = {7: 8}
    assert console.run("changes", "t", "--now", "--since", str(tmp_path / "offset")) == 0
    assert json.loads((tmp_path / "offset").read_text()) == {"7": 8}
    assert console.run("changes", "t", "--now") == 2
    assert "--since FILE" in console.err


@pytest.mark.parametrize("text", ["", "[1]", '{"1": "5"}', '{"1": true}'])
def test_a_file_without_an_offset_is_refused(console: Console, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offset"
    file.write_text(text)
    assert console.run("changes", "t", "--since", str(file)) == 2
    assert "offset" in console.err
    assert file.read_text() == text


def test_after_an_error_the_file_is_as_it_was(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    file.write_text('{"1": 2}')
    console.client.answers["changes"] = ChangesExpiredError("they are gone")
    assert console.run("changes", "t", "--since", str(file)) == 2
    assert "they are gone" in console.err
    assert file.read_text() == '{"1": 2}'
