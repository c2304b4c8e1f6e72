"""The parts that all regions of one server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.process import open_store_files_of_this_process
from rowlock_regionserver.region.background_pacing import BackgroundPacing, permits_of_this_machine
from rowlock_regionserver.region.idempotency.idempotency_memory import IdempotencyMemory
from rowlock_regionserver.region.memory import MemoryGauge
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles


@dataclass(frozen=True, slots=True)
class SharedParts:
    """The shared parts, each of which is thread-safe."""

    bulk_folder: Path
    config: Config
    clock: Clock
    files: Files
    memory: MemoryGauge
    pacing: BackgroundPacing
    cache: BlockCache
    request_ids: IdempotencyMemory
    open_files: OpenFiles
    # Called when disk or memory failed so that no write may continue; ends the server.
    on_fatal: Callable[[BaseException], None]

    @classmethod
    def of(
        cls,
        bulk_folder: Path,
        config: Config,
        clock: Clock,
        files: Files,
        memory: MemoryGauge,
        on_fatal: Callable[[BaseException], None],
    ) -> SharedParts:
        """Returns the parts for this configuration and this machine."""
        pacing = BackgroundPacing(config.long_work_pause_percent, memory, clock, permits_of_this_machine())
        open_files = OpenFiles(files, config.open_store_files_max or open_store_files_of_this_process())
        # If the process runs out of descriptors, those of store files that no read uses are closed.
        files.close_idle = open_files.close_idle
        cache = BlockCache(config.block_cache_bytes)
        request_ids = IdempotencyMemory(config.request_ids_bytes_max)
        return cls(bulk_folder, config, clock, files, memory, pacing, cache, request_ids, open_files, on_fatal)

    def count_in(self, ledger: Ledger) -> None:
        """Lets the ledger read the bytes that these parts count themselves, and the cache borrow unused memory."""
        ledger.block_cache.follow(lambda: self.cache.bytes_held)
        ledger.block_cache.when_short(self.cache.shrink)
        self.cache.borrow(ledger.block_cache.bytes_max_now)
        ledger.indexes.follow(lambda: self.cache.index_bytes_held)
        ledger.request_ids.follow(lambda: self.request_ids.bytes_held)
