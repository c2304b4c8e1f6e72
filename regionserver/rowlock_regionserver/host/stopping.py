"""The last flush: what is in memory goes to store files, as far as the disk has space, and what does not is told.

Nothing here waits for space. What could not be flushed is in the log, from which the next start recovers it; only what
asked not to be logged is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rowlock_regionserver.errors import (
    DiskFullError,
    NotServingRegionError,
    StoppingError,
    TooManyOpenFilesError,
    UnknownOutcomeError,
)
from rowlock_regionserver.region.region import Region

# Tables that are named; of more, only how many there are.
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Unflushed:
    """A region that was left in memory when the server stopped, and why."""

    table: str
    byte_count: int
    why: str


def flush_at_the_end(
    regions: Sequence[Region], flush: Callable[[Region], object], thread_count: int
) -> list[Unflushed]:
    """Flushes and closes all regions, several at once; gives those that it left. Blocks, but never for disk space.

    `flush` raises UnknownOutcomeError for a region with changes that the log has given up.
    """

    def flush_and_close(region: Region) -> Unflushed | None:
        left: Unflushed | None = None
        try:
            flush(region)
        except (DiskFullError, TooManyOpenFilesError, UnknownOutcomeError) as error:
            left = Unflushed(region.table.name, region.memstore_bytes, str(error))
        except (NotServingRegionError, StoppingError):
            pass  # Dropped a moment ago; or the server ends by a failure, and has said so.
        region.close()
        return left

    with ThreadPoolExecutor(thread_count, thread_name_prefix="last-flush") as pool:
        return [left for left in pool.map(flush_and_close, regions) if left is not None]


def told(left: Sequence[Unflushed]) -> str:
    """What an operator should know, in one line."""
    names = ", ".join(f"{each.table!r} ({each.byte_count} bytes in memory)" for each in left[:_NAMED_MAX])
    more = f" and {len(left) - _NAMED_MAX} more" if len(left) > _NAMED_MAX else ""
    return (
        f"stopped without flushing {names}{more}, because of this: {left[0].why.rstrip('.')}; what was acknowledged is "
        "in the log, except at durability skip: free some disk space, then the next start recovers it"
    )
