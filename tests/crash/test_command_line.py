"""Campaigns run one after the other, even if one fails, and the exit code shows a failure."""

from __future__ import annotations

import pytest

from tests.crash import command_line
from tests.crash.account import Account, Settings


def holds(settings: Settings) -> Account:
    return Account("holds", f"seed {settings.seed}, short: {settings.is_short}")


def breaks(settings: Settings) -> Account:
    return Account("breaks", "a promise", problems=["it was not kept"])


def dies(settings: Settings) -> Account:
    raise FileExistsError("a folder of its own")


CAMPAIGNS = {"dies": dies, "breaks": breaks, "holds": holds}


def test_the_next_campaign_runs_after_one_that_died_or_broke_its_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(CAMPAIGNS, "campaigns", "about", ["--seed", "7"]) == 1
    told = capsys.readouterr().out
    assert "FileExistsError: a folder of its own\ndies: DIED, 0 s" in told
    assert "PROBLEM it was not kept" in told
    assert "holds: seed 7, short: False\n    held" in told
    assert told.endswith("1 of 3 campaigns held; failed: dies, breaks\n")


def test_only_the_named_campaigns_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(CAMPAIGNS, "campaigns", "about", ["holds", "--short"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 campaigns held; failed: none\n")


def test_an_unknown_name_is_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.run(CAMPAIGNS, "campaigns", "about", ["holds", "other"])
    told = capsys.readouterr()
    assert told.out == ""
    assert "there is no campaign 'other'" in told.err
