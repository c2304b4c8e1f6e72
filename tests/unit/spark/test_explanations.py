from __future__ import annotations

import pytest
from rowlock.errors import DeadlineError, MappingError, RowlockError, ServerUnavailableError, SnapshotEndedError
from rowlock.spark.explanations import explained

_AWAY = ServerUnavailableError("no server answers at db:7460: connection refused")


def test_a_server_that_stayed_away_is_named_whether_time_ran_out_or_not() -> None:
    out_of_time = DeadlineError("no answer within 60 s")
    out_of_time.__cause__ = _AWAY
    for error in (_AWAY, out_of_time):
        told = explained(error, "db:7460", "t", 15.0)
        assert isinstance(told, ServerUnavailableError)
        assert told.message.startswith(
            "no rowlock server answered at db:7460 within 15 s: connection refused. Is it run"
        )


def test_an_ended_moment_says_how_to_go_on() -> None:
    told = explained(SnapshotEndedError("not here"), "db:7460", "flights", 60.0)
    assert isinstance(told, SnapshotEndedError)
    for word in ("'flights'", "spark.read...load() again", "snapshot=latest", "(not here)"):
        assert word in told.message


def test_what_ended_decides_how_to_go_on() -> None:
    error = SnapshotEndedError("not here")
    held = explained(error, "db:7460", "flights", 60.0, "held").message
    assert "the option snapshot names" in held
    assert "rowlock.spark.snapshot" in held
    latest = explained(error, "db:7460", "flights", 60.0, "latest").message
    assert "10 minutes" in latest
    assert "Run the query again" in latest
    for told in (held, latest):
        assert "an hour" not in told
        assert "needs the option snapshot=latest" not in told
        assert "(not here)" in told


def test_other_errors_are_told_as_they_are() -> None:
    for error in (MappingError("wrong"), DeadlineError("too slow")):
        with pytest.raises(RowlockError):
            raise error
        assert explained(error, "db:7460", "t", 15.0) is error
        assert error.__traceback__ is None
