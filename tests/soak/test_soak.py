"""The soak in short; `make soak` runs it in full."""

from __future__ import annotations

import pytest

from tests.seeds import drawn_seed
from tests.soak.soak import Settings, run


def test_no_answer_differs_and_nothing_leaks_in_a_short_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_VERIFY", "1")  # The server checks its invariants all the time.
    seed = drawn_seed()
    settings = Settings(
        seed,
        seconds=6,
        held_moment_s=3,
        writer_count=3,
        rows_per_writer=300,
        time_to_live_ms=3000,
        has_small_windows=True,
    )
    report = run(settings)
    print(report.text())
    print(f"again, for longer: make soak ARGS='--minutes 2 --seed {seed}'")
    assert not report.differences
    assert not report.leaks
