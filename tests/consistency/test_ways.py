"""The judgement of campaigns on which way their requests went."""

from __future__ import annotations

import pytest
import rowlock

from tests.consistency.ways import DIRECT, GRPC, count_ways, judge_both, judge_bulk, judge_direct, judge_scans
from tests.crash.account import Account


def counted(direct: int, grpc: int) -> Account:
    """Returns the account of two clients that have sent so many requests together."""
    account = Account("some", "promise")
    for first, second in ((direct, 0), (0, grpc)):
        way = rowlock.ConnectionStatistics("h:1", None, "", 1, first, second)
        count_ways(account, [rowlock.ClientStatistics((way,))])
    return account


@pytest.mark.parametrize(("direct", "grpc", "holds"), [(100, 0, True), (100, 9, True), (0, 0, False), (100, 50, False)])
def test_a_campaign_whose_requests_went_by_grpc_or_not_at_all_has_a_problem(
    direct: int, grpc: int, *, holds: bool
) -> None:
    account = counted(direct, grpc)
    assert (account.counts[DIRECT], account.counts[GRPC]) == (direct, grpc)
    judge_direct(account)
    assert (not account.problems) == holds


@pytest.mark.parametrize(("direct", "grpc", "holds"), [(10, 10, True), (9, 10, False), (10, 9, False)])
def test_a_campaign_that_hardly_used_one_of_both_ways_has_a_problem(direct: int, grpc: int, *, holds: bool) -> None:
    account = counted(direct, grpc)
    judge_both(account, 10)
    assert (not account.problems) == holds


@pytest.mark.parametrize(("direct", "grpc", "holds"), [(10, 10, True), (9, 10, False), (10, 9, False)])
def test_a_campaign_that_hardly_sent_batches_one_of_both_ways_has_a_problem(
    direct: int, grpc: int, *, holds: bool
) -> None:
    account = Account("some", "promise")
    way = rowlock.ConnectionStatistics("h:1", None, "", 1, 0, 0, direct_bulk_streams=direct, grpc_bulk_streams=grpc)
    count_ways(account, [rowlock.ClientStatistics((way,))])
    judge_bulk(account, 10)
    assert (not account.problems) == holds


@pytest.mark.parametrize(
    ("direct", "grpc", "connections", "holds"),
    [(10, 10, 9, True), (9, 10, 1, False), (10, 9, 1, False), (10, 10, 10, False)],
)
def test_a_campaign_that_hardly_scanned_one_of_both_ways_has_a_problem(
    direct: int, grpc: int, connections: int, *, holds: bool
) -> None:
    account = Account("some", "promise")
    way = rowlock.ConnectionStatistics(
        "h:1", None, "", 1, 0, 0, direct_scans=direct, grpc_scans=grpc, scan_connections=connections
    )
    count_ways(account, [rowlock.ClientStatistics((way,))])
    judge_scans(account, 10)
    assert (not account.problems) == holds
