"""Runs a function while a call pauses before a retry."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rowlock._core.retry import Attempts
from rowlock.errors import RowlockError


def in_each_pause(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Calls `happens` whenever a call has failed and is about to pause."""
    failed = Attempts.failed

    def failed_and_more(attempts: Attempts, error: RowlockError, now: float, *, was_sent: bool) -> float:
        pause = failed(attempts, error, now, was_sent=was_sent)
        happens()
        return pause

    monkeypatch.setattr(Attempts, "failed", failed_and_more)
