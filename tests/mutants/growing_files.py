"""Broken builds of files that are synced while they are written."""

from __future__ import annotations

from .broken_build import Mutant

DURABLE = "unit/test_durable_files.py"
STORE_WRITER = "unit/storefile/test_writer.py"

GROWING_FILES = [
    Mutant(
        "a store file is synced only at its end",
        "Container.put_block",
        "            self._last_sync = self._syncing.submit(self._files.fdatasync, self._descriptor)\n",
        "",
        f"{STORE_WRITER}::test_a_large_file_is_synced_as_it_grows",
    ),
    Mutant(
        "a failed sync of a growing store file is passed over",
        "Container.commit_blocks",
        "            self._last_sync.result()\n",
        "            self._last_sync.exception()\n",
        f"{STORE_WRITER}::test_a_file_whose_sync_failed_is_removed_and_not_synced_again[2]",
    ),
    Mutant(
        "blocks are written while those before are synced",
        "Container.commit_blocks",
        "            self._last_sync.result()\n",
        "            pass\n",
        f"{STORE_WRITER}::test_blocks_are_written_only_when_those_before_are_synced",
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
        "                with self._syncing():\n                    self._files.fdatasync(self._descriptor)\n",
        "                with self._syncing(), contextlib.suppress(OSError):\n"
        "                    self._files.fdatasync(self._descriptor)\n",
        f"{DURABLE}::test_a_new_file_whose_sync_failed_is_removed_and_not_synced_again",
    ),
]
