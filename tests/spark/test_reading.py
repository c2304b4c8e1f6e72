from __future__ import annotations

from typing import TYPE_CHECKING

import rowlock
from rowlock import Client
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAPPING = "id STRING :key, delay INT info:delay, dest STRING info:dest"


def test_a_table_is_read_as_it_is_mapped(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: Client
) -> None:
    table = rowlock_client.create_table("flights", {"info": rowlock.Family()})
    table.put("a", {"info:delay": (5).to_bytes(4, "big"), "info:dest": "JFK"})
    table.put("b", {"info:dest": "LGA"})
    reader = spark.read.format("rowlock").option("server", rowlock_server.address).option("mapping", _MAPPING)
    frame = reader.load("flights")
    assert [tuple(row) for row in retried(frame.orderBy("id").collect)] == [("a", 5, "JFK"), ("b", None, "LGA")]
