"""The last flush: writes memstores to store files, as far as the disk has space, and reports the regions it could not.

No step waits for disk space or memory. Writes that could not be flushed are in the log, from which the next start
recovers them; only writes at durability skip are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    OutOfMemoryError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.region.region import Region

# The number of tables that are named; for more there is a count.
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Unflushed:
    """A region that was not flushed when the server stopped, and why."""

    table: str
    byte_count: int
    why: str


def flush_at_the_end(
    regions: Sequence[Region], flush: Callable[[Region], object], thread_count: int
) -> list[Unflushed]:
    """Flushes and closes all regions, several at once. Returns those that it could not flush.

    Blocks, but never for disk space. `flush` raises UnknownOutcomeError for a region with changes that the log failed.
    """

    def flush_and_close(region: Region) -> Unflushed | None:
        unflushed: Unflushed | None = None
        try:
            flush(region)
        except (DiskFullError, TooManyOpenFilesError, OutOfMemoryError, UnknownOutcomeError) as error:
            unflushed = Unflushed(region.table.name, region.memstore_bytes, str(error))
        except (NotServingRegionError, StoppingError):
            pass  # The region was dropped, or the server ends after a failure, which was reported.
        region.close()
        return unflushed

    with ThreadPoolExecutor(thread_count, thread_name_prefix="last-flush") as pool:
        return [unflushed for unflushed in pool.map(flush_and_close, regions) if unflushed is not None]


def unflushed_text(unflushed: Sequence[Unflushed]) -> str:
    """Returns the report for the operator, in one line."""
    names = ", ".join(f"{each.table!r} ({each.byte_count} bytes in memory)" for each in unflushed[:_NAMED_MAX])
    more = f" and {len(unflushed) - _NAMED_MAX} more" if len(unflushed) > _NAMED_MAX else ""
    return (
        f"stopped without flushing {names}{more}: {unflushed[0].why.rstrip('.')}; acknowledged writes are in the log, "
        "except those at durability skip; the next start recovers them"
    )
