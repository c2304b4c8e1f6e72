"""What a client knows of a session that it has opened."""

from __future__ import annotations

import pytest
from rowlock._core.session_requests import OpenedSession
from rowlock.errors import RowlockError, SessionEndedError
from rowlock_proto.v1 import sessions_pb2


def test_a_session_notes_its_end_by_the_error_that_says_so_and_by_no_other() -> None:
    session = OpenedSession(sessions_pb2.Session(session_id="s"))
    with pytest.raises(RowlockError), session.noting_its_end():
        raise RowlockError("something else")
    assert session.is_open
    ended = SessionEndedError("it is over", reason="idle")
    with pytest.raises(SessionEndedError), session.noting_its_end():
        raise ended
    assert not session.is_open
    with pytest.raises(SessionEndedError) as caught:
        session.check()
    assert caught.value is ended
