"""A catalog that a later version has written: its properties and fields of tables stay, and the tables work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.compaction.job import CompactionJob, State
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.compaction_requests import request_compactions

from tests.waiting import wait_until

from .restored_table import restored
from .serving_table import CONFIG, FAMILIES, Serving, fill

LATER = "future.thing"
COMPACTING = replace(CONFIG, compaction_threads=1, compaction_check_ms=10)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    """Table `t` with a property and a field of a later version."""
    serving = Serving(tmp_path, COMPACTING)
    serving.server.stop()
    folder = tmp_path / "catalog"
    number, body = generations.read_newest(Files(), folder, catalog.NAME)
    fields = json.loads(body)
    fields["tables"][0] |= {"properties": {LATER: "on"}, "later_field": {"a": [1]}}
    path = generations.generation_path(folder, catalog.NAME, number)
    path.write_bytes(generations.framed(number, json.dumps(fields).encode()))
    serving.server = serving.open()
    yield serving
    serving.server.stop()


def check_kept(table: Serving, name: str = "t") -> None:
    entry = table.server.table_entry(name)
    assert dict(entry.table.properties)[LATER] == "on"
    assert entry.later_fields == {"later_field": {"a": [1]}}


def is_of_id(job_id: int, job: CompactionJob) -> bool:
    return job.job_id == job_id


def wait_for_success(table: Serving, is_wanted: Callable[[CompactionJob], bool]) -> None:
    """Waits for a compaction of table t that has succeeded."""
    compactions = table.server.compactions
    wait_until(lambda: any(is_wanted(job) and job.state is State.SUCCEEDED for job in compactions.jobs("t")))


def test_an_alter_keeps_an_unknown_property_and_may_drop_it(table: Serving) -> None:
    table.server.alter_table("t", set_properties={"compaction.files_max": "7"})
    check_kept(table)
    table.restart()
    check_kept(table)
    altered = table.server.alter_table("t", drop_properties=[LATER])
    assert altered.properties == (("compaction.files_max", "7"),)


def test_an_unknown_property_is_refused_in_what_is_set(table: Serving) -> None:
    message = f"no property of a table is called '{LATER}'; there are compaction.automatic"
    with pytest.raises(InvalidRequestError, match=message):
        table.server.alter_table("t", set_properties={LATER: "off"})
    with pytest.raises(InvalidRequestError, match=message):
        table.server.create_table("u", FAMILIES, properties={LATER: "on"})
    with pytest.raises(InvalidRequestError, match="files_max must be from 2"):
        table.server.alter_table("t", set_properties={"compaction.files_max": "1"})
    check_kept(table)


def test_a_table_with_an_unknown_property_is_compacted_by_hand(table: Serving) -> None:
    table.server.alter_table("t", set_properties={"compaction.automatic": "false"})
    rows = fill(table)
    table.server.flush("t")
    for properties in ({}, {"compaction.files_max": "9"}):
        (job_id,) = request_compactions(table.server, "t", [b"f"], is_major=True, properties=properties)
        wait_for_success(table, partial(is_of_id, job_id))
    assert len(table.file_facts()) == 1
    assert table.scan() == rows


def test_a_table_with_an_unknown_property_is_compacted_automatically(
    table: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    table.server.alter_table("t", set_properties={"compaction.minor_files_min": "2"})
    for value in (b"1", b"2", b"3"):
        table.put(b"r", value)
        table.server.flush("t")
    wait_for_success(table, lambda job: not job.is_by_hand)
    assert table.get(b"r") == [b"3"]
    assert "can't be looked at" not in caplog.text


def test_all_changes_of_a_table_keep_what_is_unknown(table: Serving) -> None:
    rows = fill(table)
    table.split(b"r000013")
    table.merge()
    table.server.create_named_snapshot("s", "t")
    table.server.truncate_table("t")
    table.restart()
    check_kept(table)
    assert restored(table, to="u").scan() == rows
    check_kept(table, "u")
    table.restart()
    check_kept(table, "u")
