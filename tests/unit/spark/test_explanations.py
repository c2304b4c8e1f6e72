from __future__ import annotations

import pytest
from rowlock.errors import DeadlineError, MappingError, RowlockError, ServerUnavailableError, SnapshotEndedError
from rowlock.spark.explanations import explained

_AWAY = ServerUnavailableError("no server answers at db:7460: connection refused")


def test_an_unreachable_server_is_named_also_after_a_deadline() -> None:
    out_of_time = DeadlineError("no answer within 60 s")
    out_of_time.__cause__ = _AWAY
    for error in (_AWAY, out_of_time):
        found = explained(error, "db:7460", "t", 15.0)
        assert isinstance(found, ServerUnavailableError)
        assert found.message.startswith(
            "no rowlock server answered at db:7460 within 15 s: connection refused. Is it run"
        )


def test_the_error_for_a_server_that_hangs_names_the_wait() -> None:
    found = explained(DeadlineError("db:7460 did not answer in time", table="t"), "db:7460", "t", 15.0)
    assert isinstance(found, DeadlineError)
    assert found.table == "t"
    assert found.message.startswith("db:7460 did not answer in time (waited 15 s; ")
    assert "raise the option timeout" in found.message


def test_the_error_for_an_ended_snapshot_has_advice() -> None:
    error = SnapshotEndedError("not here", ended_ms=7, reason="unused")
    found = explained(error, "db:7460", "flights", 60.0)
    assert isinstance(found, SnapshotEndedError)
    assert (found.ended_ms, found.reason) == (7, "unused")
    for word in ("'flights'", "spark.read...load() again", "snapshot=latest", "(not here)"):
        assert word in found.message


def test_the_advice_depends_on_the_kind_of_snapshot() -> None:
    error = SnapshotEndedError("not here")
    held = explained(error, "db:7460", "flights", 60.0, "held").message
    assert "the option snapshot names" in held
    assert "rowlock.spark.snapshot" in held
    latest = explained(error, "db:7460", "flights", 60.0, "latest").message
    assert "10 minutes" in latest
    assert "Run the query again" in latest
    for message in (held, latest):
        assert "an hour" not in message
        assert "needs the option snapshot=latest" not in message
        assert "(not here)" in message


def test_other_errors_do_not_change() -> None:
    error = MappingError("wrong")
    with pytest.raises(RowlockError):
        raise error
    assert explained(error, "db:7460", "t", 15.0) is error
    assert error.__traceback__ is None
