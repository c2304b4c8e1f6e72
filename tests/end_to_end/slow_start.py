"""A rowlock-server whose recovery lasts until the test releases it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.end_to_end.server_command import ServerCommand
from tests.waiting import wait_until

PROGRAM = """
import pathlib, sys, time
from rowlock_regionserver.__main__ import main
from rowlock_regionserver.host.region_server import RegionServer
may_end = pathlib.Path(sys.argv.pop(1))
opened = RegionServer.open
def open_slowly(*arguments):
    may_end.with_suffix(".begun").touch()
    while not may_end.exists():
        time.sleep(0.01)
    return opened(*arguments)
RegionServer.open = open_slowly
main()
"""


def recovering_server(tmp_path: Path, *words: str | Path) -> tuple[ServerCommand, Callable[[], None]]:
    """Returns a server that is recovering, and a function that ends its recovery."""
    count = len(list(tmp_path.glob("recovery-*.begun")))
    may_end = tmp_path / f"recovery-{count}"
    server = ServerCommand(may_end, *words, program=("-c", PROGRAM))
    wait_until(may_end.with_suffix(".begun").exists)
    return server, may_end.touch
