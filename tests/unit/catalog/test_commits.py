"""Commits of bulk writes: which identities are known, and how many."""

from __future__ import annotations

import pytest
from rowlock_regionserver.catalog.commits import NO_COMMITS, CommitEntry, Commits, Identity, IdentityRange
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError

TABLE_ID = 3
DAY_MS = 24 * 3600 * 1000


def committed(commits: Commits, text: str, number: int, *, table_id: int = TABLE_ID, day: int = 1) -> Commits:
    config = Config(commit_identities_max=3, commit_identities_days=30)
    entry = CommitEntry(1, table_id, 1, day * DAY_MS, 1, 1, 1, regions=())
    return commits.with_commit(entry, Identity(text, number), lambda _region_id, _write_number: True, config)


def test_consecutive_numbers_of_a_text_are_one_range_in_any_order() -> None:
    commits = NO_COMMITS
    for number in (5, 3, 1, 4, 2):
        commits = committed(commits, "daily", number, day=number)
    assert commits.identities == (IdentityRange(TABLE_ID, "daily", 1, 5, 5 * DAY_MS),)
    assert [number for number in range(8) if commits.has_identity(TABLE_ID, Identity("daily", number))] == [
        *range(1, 6)
    ]
    assert not commits.has_identity(TABLE_ID + 1, Identity("daily", 1))


@pytest.mark.parametrize("texts", [("a", "a", "a"), ("a", "b", "c")])
def test_a_commit_that_would_begin_one_range_too_many_is_refused(texts: tuple[str, str, str]) -> None:
    commits = NO_COMMITS
    for number, text in enumerate(texts):
        commits = committed(commits, text, 10 * number)
    for text in ("a", "d"):
        with pytest.raises(LimitExceededError, match="commits of 3 ranges") as caught:
            committed(commits, text, 100)
        assert caught.value.found == 4
    # What needs no other range is committed, as is what another table has.
    assert len(committed(commits, "a", 1).identities) == 3
    assert len(committed(commits, "d", 100, table_id=TABLE_ID + 1).identities) == 4
    assert len(committed(commits, "d", 100, day=31).identities) == 1
