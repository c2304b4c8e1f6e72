"""Refuses streams: rowlock has neither a streaming source nor a sink."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rowlock.errors import InvalidArgumentError

# An option of stream writers, in lower case.
CHECKPOINT = "checkpointlocation"


def no_streaming() -> InvalidArgumentError:
    """Returns the error for a stream."""
    return InvalidArgumentError(
        "rowlock has no streaming source or sink: write a stream with .writeStream.foreachBatch(...), whose function "
        "gets each micro-batch as a DataFrame and writes it with .write.format('rowlock').mode('append')...save(), and "
        "read tables with spark.read"
    )


class RefusingStreamReader(DataSourceStreamReader):
    """Raises when Spark requests offsets. PySpark hides an error that is raised earlier, by the constructor."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        raise no_streaming()

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802  # with limits since 4.2
        raise no_streaming()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        raise no_streaming()

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        raise no_streaming()
