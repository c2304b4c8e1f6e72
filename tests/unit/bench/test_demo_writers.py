"""A correction is one conditional change, and a writer whose flight was changed by another fails."""

from __future__ import annotations

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from bench.demo import tables
from bench.demo.corrections import Correction, Rounds
from bench.demo.process_group import processes
from bench.demo.writers import Signals, Writers, correct, correct_until_stopped

ROUNDS = Rounds("cleo", [b"a", b"b"], [100, 61])


@pytest.fixture
def flights(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    rowlock_client.create_table(tables.SPARK_FLIGHTS, {"actual": rowlock.Family(), "fix": rowlock.Family()})
    table = rowlock_client.table(tables.SPARK_FLIGHTS)
    for row, delay in zip(ROUNDS.rows, ROUNDS.delays, strict=True):
        table.put(row, {tables.ARRIVAL_DELAY: tables.number_bytes(delay)})
    return table


def test_a_correction_says_who_made_it_and_which_it_was(flights: rowlock.Table[bytes]) -> None:
    assert correct(flights, "cleo", Correction(7, b"a", 100, 50)).applied
    assert flights.row(b"a") == {
        b"actual:arr_delay": tables.number_bytes(50),
        b"fix:by": b"cleo",
        b"fix:number": tables.number_bytes(7),
    }
    assert not correct(flights, "cleo", Correction(8, b"a", 100, 50)).applied


def test_writers_correct_until_they_are_told_and_tell_what_they_did(
    flights: rowlock.Table[bytes], rowlock_server: RowlockServer
) -> None:
    with Writers(rowlock_server.address, [ROUNDS]) as writers:
        writers.check()
        [journal] = writers.stop()
    count = len(journal.acknowledged)
    assert count == len(journal.sent) > 0
    assert all(sent <= answered for sent, answered in zip(journal.sent, journal.acknowledged, strict=True))
    newest = ROUNDS.first(count)
    found = {row: tables.number_of(data[b"fix:number"]) for row, data in flights.scan() if b"fix:number" in data}
    assert found == {row: corrected.number for row, corrected in newest.items()}


def test_a_flight_that_somebody_else_changed_ends_its_writer(
    flights: rowlock.Table[bytes], rowlock_server: RowlockServer
) -> None:
    flights.put(b"a", {tables.ARRIVAL_DELAY: tables.number_bytes(3)})
    signals = Signals(processes.Event(), processes.Event())
    with pytest.raises(AssertionError, match="met"):
        correct_until_stopped(rowlock_server.address, ROUNDS, signals)
