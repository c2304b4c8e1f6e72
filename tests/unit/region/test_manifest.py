"""The manifest: its fields for a store file, and manifests of earlier versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Put
from rowlock_regionserver.region.manifest import FORMAT_VERSION, NAME, Manifest, read_manifest, write_manifest
from rowlock_regionserver.storefile.info import Json, StoreFileInfo

from .conftest import Engine

LONG = b"k" * 30_000


def folder_of(engine: Engine) -> Path:
    return engine.folder / "regions" / str(engine.region.region_id)


def newest(folder: Path) -> Path:
    # A compaction may be writing a temporary one.
    return max(folder.glob(f"{NAME}-" + "[0-9a-f]" * 16))


def test_it_does_not_grow_with_the_rows(engine: Engine) -> None:
    for number in range(10):
        engine.change(LONG + b"%d" % number, Put(b"f", b"q", b"v"))
        engine.server.flush("t")
    assert newest(folder_of(engine)).stat().st_size < 10_000
    assert engine.cells(LONG + b"7")[0][3] == b"v"
    engine.restart()
    assert [cell[0] for cell in engine.scan()] == [LONG + b"%d" % number for number in range(10)]


def test_a_manifest_of_version_1_is_read_and_the_next_one_is_of_version_2(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 1 had the first and last row of each file, in the manifest and in the file."""

    to_json = StoreFileInfo.to_json

    def as_before(info: StoreFileInfo) -> Json:
        return {**to_json(info), "first_row": "61", "last_row": "62"}

    with monkeypatch.context() as before:
        before.setattr(StoreFileInfo, "to_json", as_before)
        engine.change(b"a", Put(b"f", b"q", b"v"))
        engine.change(b"b", Put(b"f", b"q", b"v"))
        engine.server.flush("t")
        folder = folder_of(engine)
        engine.server.stop()
        live = read_manifest(engine.files, folder)
        body = live.manifest.encode()
        assert b"first_row" in body
        generations.write(engine.files, folder, NAME, live.generation + 1, body, version=1)
    engine.server = engine.open()
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]
    engine.change(b"c", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    assert b"first_row" not in newest(folder).read_bytes()
    engine.restart()
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b", b"c"]


def test_fields_of_a_newer_version_are_ignored_and_dropped_from_the_next_manifest(engine: Engine) -> None:
    """A field that must survive an older server needs a new format version, which that server refuses."""
    engine.change(b"a", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    engine.server.stop()
    folder = folder_of(engine)
    live = read_manifest(engine.files, folder)
    more = {"level": 3, "replaces": [1, 2], "origin": {"kind": "compaction"}}
    fields = {**json.loads(live.manifest.encode()), **more}
    fields["store_files"] = {
        family: [{**info, **more} for info in infos] for family, infos in fields["store_files"].items()
    }
    body = json.dumps(fields).encode()
    assert body.count(b"compaction") == 2, "one in the manifest, one in its store file"
    generations.write(engine.files, folder, NAME, live.generation + 1, body, version=FORMAT_VERSION)
    assert read_manifest(engine.files, folder).manifest == live.manifest
    engine.server = engine.open()
    assert [cell[0] for cell in engine.scan()] == [b"a"]
    assert b"compaction" in newest(folder).read_bytes(), "opening writes no manifest"
    engine.change(b"b", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    assert b"compaction" not in newest(folder).read_bytes()
    engine.restart()
    assert [cell[0] for cell in engine.scan()] == [b"a", b"b"]


def test_a_server_of_version_1_refuses_it(tmp_path: Path) -> None:
    """It reads version 1, and would report the missing fields as damage."""
    write_manifest(Files(), tmp_path, 1, Manifest(1, 1))
    with pytest.raises(DataFolderError, match="version 2, but this rowlock reads up to 1; use a newer one"):
        generations.read_newest(Files(), tmp_path, NAME)


@pytest.mark.parametrize("change", [{"clip_start": b"b"}, {"clip_stop": b"b"}, {"written_number": 9}])
def test_a_server_of_version_2_refuses_one_with_clipped_or_renumbered_files(
    engine: Engine, tmp_path: Path, change: dict[str, bytes | int]
) -> None:
    """It would ignore the fields, and serve rows of other regions."""
    engine.change(b"a", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    live = read_manifest(engine.files, folder_of(engine)).manifest
    assert live.format_version == 2
    ((number, (info,)),) = live.store_files.items()
    changed = replace(live, store_files={number: (replace(info, **change),)})  # type: ignore[arg-type]  # by name
    write_manifest(Files(), tmp_path, 1, changed)
    assert read_manifest(Files(), tmp_path).manifest == changed
    with pytest.raises(DataFolderError, match="version 3, but this rowlock reads up to 2; use a newer one"):
        generations.read_newest(Files(), tmp_path, NAME, version_max=2)


@pytest.mark.parametrize("change", [{"write_number_base": 4}, {"stamp": 5}, {"commit_number": 6}])
def test_a_server_of_version_3_refuses_one_with_adopted_files(
    engine: Engine, tmp_path: Path, change: dict[str, int]
) -> None:
    """It would take the numbers in the files for those that count, or take a file of no commit."""
    engine.change(b"a", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    live = read_manifest(engine.files, folder_of(engine)).manifest
    ((number, (info,)),) = live.store_files.items()
    changed = replace(live, store_files={number: (replace(info, **change),)})  # type: ignore[arg-type]  # by name
    write_manifest(Files(), tmp_path, 1, changed)
    found = read_manifest(Files(), tmp_path).manifest
    assert found == changed
    assert found.counted({6}).store_files[number][0].commit_number == 0
    assert len(found.counted({7}).store_files[number]) == (0 if "commit_number" in change else 1)
    with pytest.raises(DataFolderError, match="version 4, but this rowlock reads up to 3; use a newer one"):
        generations.read_newest(Files(), tmp_path, NAME, version_max=3)


def test_a_missing_field_of_a_store_file_is_damage(tmp_path: Path) -> None:
    fields = json.loads(Manifest(1, 1).encode())
    fields["store_files"] = {"1": [{"number": 1}]}
    generations.write(Files(), tmp_path, NAME, 1, json.dumps(fields).encode(), version=FORMAT_VERSION)
    with pytest.raises(CorruptionError, match="cell_count"):
        read_manifest(Files(), tmp_path)
