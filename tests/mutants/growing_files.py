"""Broken builds of files that are synced while they are written."""

from __future__ import annotations

from .broken_build import Mutant

BACKGROUND = "unit/storefile/test_background_sync.py"
BULK_FILE = "unit/region/test_bulk_file.py"
DURABLE = "unit/test_durable_files.py"
STORE_WRITER = "unit/storefile/test_writer.py"

GROWING_FILES = [
    Mutant(
        "a store file is synced only at its end",
        "Container.put_block",
        "            self._sync.start()\n",
        "",
        f"{STORE_WRITER}::test_a_large_file_is_synced_as_it_grows",
    ),
    Mutant(
        "a failed sync of a growing store file is passed over",
        "BackgroundSync.wait",
        "        if self._error is not None:\n            raise self._error\n",
        "",
        f"{BACKGROUND}::test_a_failure_is_reported_each_time_and_the_file_is_not_synced_again[wait]",
    ),
    Mutant(
        "a growing store file is synced again after a failed sync",
        "BackgroundSync.start",
        "        if self._error is not None:\n            raise self._error\n",
        "",
        f"{BACKGROUND}::test_a_failure_is_reported_each_time_and_the_file_is_not_synced_again[start]",
    ),
    Mutant(
        "the next blocks wait for the sync of those before",
        "Container.put_block",
        "            self._sync.start()\n",
        "            self._sync.wait()\n            self._sync.start()\n",
        f"{STORE_WRITER}::test_a_slow_sync_holds_up_no_piece_of_the_file",
    ),
    Mutant(
        "a store file is closed while it is synced",
        "Container.__exit__",
        "            self._sync.wait()\n",
        "            pass\n",
        f"{STORE_WRITER}::test_a_store_file_is_closed_when_its_last_sync_has_ended",
    ),
    Mutant(
        "a bulk file keeps its permit while it waits for the disk",
        "write_bulk_file",
        ", syncing) as file, syncing():\n",
        ", syncing) as file:\n",
        f"{BULK_FILE}::test_a_large_bulk_file_is_written_and_synced_without_the_permit",
    ),
    Mutant(
        "a new file is synced only at its end",
        "NewFile.append",
        "            if self._unsynced_bytes >= SYNCED_BYTES:\n",
        "            if False:\n",
        f"{DURABLE}::test_a_large_new_file_is_synced_as_it_grows[1000]",
    ),
    Mutant(
        "a large part of a new file is synced only at its end",
        "NewFile.append",
        "            piece = view[start : start + SYNCED_BYTES]\n",
        "            if start:\n                break\n            piece = view\n",
        f"{DURABLE}::test_a_large_new_file_is_synced_as_it_grows[{3 * (1 << 20) + 7}]",
    ),
    Mutant(
        "a failed sync of a growing new file is passed over",
        "NewFile.append",
        "                self._files.fdatasync(self._descriptor)\n",
        "                with contextlib.suppress(OSError):\n"
        "                    self._files.fdatasync(self._descriptor)\n",
        f"{DURABLE}::test_a_new_file_whose_sync_failed_is_removed_and_not_synced_again",
    ),
]
