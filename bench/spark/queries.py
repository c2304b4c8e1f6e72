"""Ten analytic queries of the trips, each a function of a reader of some of their columns.

Their answers do not depend on the order in which Spark adds numbers: they sum integers and decimals only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.targets.typed_rows import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Returns a new DataFrame of these columns of the trips.
Read = Callable[..., "DataFrame"]
Query = Callable[[Read], "DataFrame"]
# The values of a row have the types of its columns.
Answer = list[tuple[Any, ...]]

_VIEW = "trips_of_a_query"


def answer(query: Query, read: Read) -> Answer:
    """Returns the rows of a query's answer in an order that depends only on their values."""
    return sorted(map(tuple, query(read).collect()), key=repr)


def group_by(read: Read) -> DataFrame:
    rides = read("payment", "total", "passengers").groupBy("payment")
    return rides.agg({"*": "count", "total": "sum", "passengers": "avg"})


def join(read: Read) -> DataFrame:
    rides = read("pickup_zone", "fare")
    zones = rides.sparkSession.range(1, 266).selectExpr("cast(id as int) pickup_zone", "id % 5 borough")
    return rides.join(zones, "pickup_zone").groupBy("borough").agg({"fare": "sum", "*": "count"})


def window(read: Read) -> DataFrame:
    place = f"row_number() over (partition by pickup_zone order by total desc, {KEY}) place"
    return read(KEY, "pickup_zone", "total").selectExpr("*", place).where("place <= 3")


def distinct(read: Read) -> DataFrame:
    return read("taxi", "day").distinct().groupBy("day").count()


def top_n(read: Read) -> DataFrame:
    rides = read(KEY, "distance", "total")
    return rides.orderBy(rides["total"].desc(), KEY).limit(100)


def semi_join(read: Read) -> DataFrame:
    far = read("taxi", "distance").where("distance > 15").select("taxi")
    return read("taxi", "fare").join(far, "taxi", "left_semi").agg({"*": "count", "fare": "sum"})


def self_join(read: Read) -> DataFrame:
    rides = read("taxi", "day", "vendor")
    first, second = rides.where("vendor = 1"), rides.where("vendor = 2")
    return first.join(second, ["taxi", "day"]).groupBy("day").count()


def union(read: Read) -> DataFrame:
    rides = read("payment", "vendor", "tip")
    both = rides.where("payment = 'card'").unionByName(rides.where("payment = 'dispute'"))
    return both.groupBy("vendor", "payment").agg({"tip": "max", "*": "count"})


def sql_view(read: Read) -> DataFrame:
    rides = read("day", "passengers", "distance", "total")
    rides.createOrReplaceTempView(_VIEW)
    return rides.sparkSession.sql(
        f"SELECT day, count(*), max(distance), sum(total) FROM {_VIEW} WHERE passengers >= 2 GROUP BY day"
    )


def pandas_on_spark(read: Read) -> DataFrame:
    rides = read(KEY, "pickup_zone", "distance").pandas_api(index_col=KEY)
    farthest = rides.groupby("pickup_zone")["distance"].max().to_frame()
    found: DataFrame = farthest.to_spark(index_col="pickup_zone")
    return found


QUERIES: Mapping[str, Query] = {
    "group by": group_by,
    "join": join,
    "window": window,
    "distinct": distinct,
    "top-n": top_n,
    "semi join": semi_join,
    "self join": self_join,
    "union": union,
    "SQL view": sql_view,
    "pandas on Spark": pandas_on_spark,
}
