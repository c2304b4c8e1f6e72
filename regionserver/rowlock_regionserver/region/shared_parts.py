"""What all regions of one server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.long_work import LongWork
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.region.request_id_memory import RequestIdMemory
from rowlock_regionserver.storefile.cache import BlockCache


@dataclass(frozen=True, slots=True)
class SharedParts:
    """Each part is thread-safe."""

    bulk_folder: Path
    config: Config
    clock: Clock
    files: Files
    memory: MemoryGauge
    long_work: LongWork
    cache: BlockCache
    request_ids: RequestIdMemory
    # Told when disk or memory failed in a way that nothing may go on after; ends the server.
    on_fatal: Callable[[BaseException], None]
