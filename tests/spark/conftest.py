"""One Spark session for all tests, started by the first one that uses it. It needs no network and no host name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM of the tests runs each method a few times: to compile it well, and to collect garbage in many threads, takes a
# quarter more processor time than it saves.
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session", autouse=True)
def short_lived_jvms() -> Iterator[None]:
    """Sets options of all JVMs that the tests start, also those of programs under test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"{_SHORT_LIVED_JVM} {os.environ.get('JAVA_TOOL_OPTIONS', '')}")
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two local task slots. A test that changes its configuration restores it."""
    session = local_session(tmp_path_factory.mktemp("spark"), "local[2]")
    yield session
    session.stop()


@pytest.fixture
def server(rowlock_server: RowlockServer) -> Iterator[str]:
    """The address of a server with an empty table `shipped`."""
    with rowlock.connect(rowlock_server.address) as client:
        client.create_table("shipped", ["f"])
        yield rowlock_server.address
        client.drop_table("shipped")
