"""What the command rowlock-server refuses before it starts."""

from __future__ import annotations

import pytest
from rowlock_regionserver.__main__ import main


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capfd.readouterr().err


def test_an_unknown_command_is_named_with_the_one_that_was_meant(capfd: pytest.CaptureFixture[str]) -> None:
    assert refused(capfd, "vrify", "data") == (
        "rowlock-server: no such command: 'vrify' (did you mean 'verify'?); the commands are verify, salvage, "
        "remove-set-aside; to serve a folder, give --data DIR\n"
    )
    assert "no such command: 'data'; the commands are " in refused(capfd, "data")


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e10", "soon"])
def test_a_time_that_can_not_be_waited_is_refused(capfd: pytest.CaptureFixture[str], text: str) -> None:
    err = refused(capfd, "--data", "data", "--embedded", "--linger", text)
    assert f"argument --linger: '{text}' is not " in err
