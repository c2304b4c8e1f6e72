"""Completion in bash, zsh and fish, each at a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.end_to_end.terminal import Terminal

Start = Callable[[list[str]], Terminal]


@pytest.fixture
def start(rowlock_server: RowlockServer, rowlock_client: rowlock.Client, tmp_path: Path) -> Iterator[Start]:
    """Starts a shell before a server with two tables."""
    table = rowlock_client.create_table("flights", ["info"])
    table.put("UA|1545", {"info:delay": "5"})
    table.put("it's a row", {"info:delay": "5"})
    rowlock_client.create_table("fs", mapping="user STRING :key, orders BIGINT count:orders").put(
        "alice", {"orders": 7}
    )
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ROWLOCK_SERVER": rowlock_server.address,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "PS1": "ready> ",
    }
    terminals: list[Terminal] = []

    def begin(words: list[str]) -> Terminal:
        if shutil.which(words[0]) is None:
            pytest.skip(f"this machine has no {words[0]}")
        terminals.append(Terminal(words, environment))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        terminal.close()


def test_bash_completes(start: Start) -> None:
    bash = start(["bash", "--norc", "--noprofile", "-i"])
    bash.wait_for("ready> ")
    bash.type("bind 'set enable-bracketed-paste off'; eval \"$(rowlock completion bash)\"; echo completes\r")
    bash.wait_for("completes\r\nready> ")
    for typed, completed in (
        ("rowlock desc\t", "rowlock describe "),
        ("rowlock get fl\t", "rowlock get flights "),
        ("rowlock get flights U\t", "rowlock get flights UA\\|1545 "),
        ("rowlock get flights 'U\t", "rowlock get flights 'UA|1545'"),
        ("rowlock get flights it\t", "rowlock get flights it\\'s\\ a\\ row "),
        ("rowlock get flights x info:d\t", "rowlock get flights x info:delay "),
        ("rowlock put flights x info:d\t", "rowlock put flights x info:delay="),
        ("rowlock scan flights --key\t", "rowlock scan flights --keys-only "),
        ("rowlock get fs al\t", "rowlock get fs alice "),
        ("rowlock get fs alice or\t", "rowlock get fs alice orders "),
    ):
        bash.type(typed)
        bash.wait_for(completed)
        # Ends the line, and begins another.
        bash.type("\x15\r")
        bash.wait_for("ready> ")
    bash.type("rowlock get flights U\t\r")
    bash.wait_for("info:delay ")


def test_zsh_completes(start: Start) -> None:
    zsh = start(["zsh", "-f", "-i"])
    zsh.wait_for("ready> ")
    zsh.type('autoload -U compinit; compinit -u -D; eval "$(rowlock completion zsh)"; echo comp""letes\r')
    zsh.wait_for("\ncompletes")
    zsh.wait_for("ready> ")
    # It draws only what changes, so each line runs, and its words come back.
    for typed, words in (
        ("rowlock desc\t", "rowlock:describe:"),
        ("rowlock get flights U\t", "rowlock:get:flights:UA|1545:"),
        ("rowlock get flights 'U\t", "rowlock:get:flights:UA|1545:"),
        ("rowlock get flights it\t", "rowlock:get:flights:it's a row:"),
        ("rowlock get flights x info:d\t", "rowlock:get:flights:x:info:delay:"),
        ("rowlock put flights x info:d\t7", "rowlock:put:flights:x:info:delay=7:"),
        ("rowlock scan flights --key\t", "rowlock:scan:flights:--keys-only:"),
    ):
        zsh.type(typed)
        zsh.type("\x01printf '%s:' \r")
        zsh.wait_for(words)
        zsh.wait_for("ready> ")


def test_fish_completes(start: Start) -> None:
    # It shows the candidates of a line without a terminal's help.
    for typed, listed in (
        ("rowlock desc", "describe\tShows a table's mapping, "),
        ("rowlock get fl", "flights\r\n"),
        ("rowlock get flights U", "UA|1545\r\n"),
        ("rowlock get flights 'it", "it's a row\r\n"),
        ("rowlock get flights x info:d", "info:delay\r\n"),
        ("rowlock put flights x info:d", "info:delay=\r\n"),
        ("rowlock scan flights --key", "--keys-only\tOmit the values.\r\n"),
    ):
        fish = start(["fish", "--private", "-c", 'rowlock completion fish | source; complete -C "$argv[1]"', typed])
        fish.wait_for(listed)
