"""One Spark session for all tests, started by the first one that uses it. It needs no network and no host name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two local task slots. A test that changes its configuration restores it."""
    session = local_session(tmp_path_factory.mktemp("spark"), "local[2]")
    yield session
    session.stop()
