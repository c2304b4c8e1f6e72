"""A small log on a simulated disk, with a model of what was appended, for the tests of the log."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal import durable
from rowlock_regionserver.wal.log import Log
from rowlock_regionserver.wal.recovered import Recovered
from rowlock_regionserver.wal.recovery import read_log, recover
from rowlock_regionserver.wal.segment import segment_number

from tests.crash.simulated_files import UnsyncedFiles
from tests.waiting import WAIT_S

Change = tuple[int, int, int, bytes]  # region id, write number, kind, payload


def small_config(**limits: int) -> Config:
    defaults = {"log_segment_bytes": 1024, "disk_free_bytes_min": 0, "log_idle_marker_ms": 5}
    return Config(procedures="", **(defaults | limits))


@dataclass
class LogCase:
    """One log, what was appended to it, and what was completed. The clock does not move, so there is no idle marker."""

    folder: Path
    files: Files
    config: Config = field(default_factory=small_config)
    clock: ManualClock = field(default_factory=ManualClock)
    appended: list[Change] = field(default_factory=list)
    completed: list[Change] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    log: Log = field(init=False)
    recovered: Recovered = field(init=False)
    delivered: list[Change] = field(init=False)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()

    def open(self) -> LogCase:
        self.delivered = []
        self.recovered = recover(self.folder, self.files, deliver_to(self.delivered))
        self.log = Log.open(self.folder, self.files, self.config, self.clock, self.recovered, self._failed)
        return self

    def append(
        self, region_id: int, payload: bytes, durability: Durability = Durability.FSYNC, kind: int = 1
    ) -> Change:
        with self.log.order:
            write_number = self.numbers.get(region_id, 0) + 1
            change = (region_id, write_number, kind, payload)
            self.log.append(region_id, write_number, kind, payload, durability, lambda: self._complete(change))
            self.numbers[region_id] = write_number
            self.appended.append(change)
        return change

    def append_synced(self, region_id: int, payload: bytes) -> Change:
        change = self.append(region_id, payload)
        self.wait(lambda: change in self.completed)
        return change

    def reserve(self, region_id: int, numbers_until: int, stamps_until: int) -> None:
        with self.log.order:
            self.log.reserve(region_id, numbers_until, stamps_until)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a completion or failure makes the condition true."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S), "the log did not get there"

    def _complete(self, change: Change) -> None:
        with self._changed:
            self.completed.append(change)
            self._changed.notify_all()

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()


def deliver_to(changes: list[Change]) -> Callable[[int, int, int, bytes], None]:
    def apply(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
        changes.append((region_id, write_number, kind, payload))

    return apply


def read_all(folder: Path) -> tuple[Recovered, list[Change]]:
    """Returns what a recovery of the folder would find, without changing it."""
    delivered: list[Change] = []
    return read_log(folder, Files(), deliver_to(delivered)), delivered


class NoteMissing(UnsyncedFiles):
    """Hides the file `durable`."""

    def read(self, path: Path) -> bytes:
        if path.name == durable.NAME:
            raise FileNotFoundError(errno.ENOENT, "hidden", str(path))
        return super().read(path)


def read_alone(folder: Path) -> tuple[Recovered, list[Change]]:
    """Returns what a recovery without the file `durable` would find."""
    delivered: list[Change] = []
    return read_log(folder, NoteMissing(), deliver_to(delivered)), delivered


def segment_names(folder: Path) -> list[str]:
    """The names of the log's segments, the oldest first."""
    return sorted(path.name for path in folder.iterdir() if segment_number(path.name) is not None)
