"""Broken builds of what guards a data folder: its locks, what it refuses, what it removes, and disks that fail."""

from __future__ import annotations

from .broken_build import Mutant

ASIDE = "unit/catalog/test_set_aside.py"
DATA_FOLDER = "unit/test_data_folder.py"
DISK = "unit/catalog/test_disk_failures.py"
FILES = "unit/test_files.py"
OWNERSHIP = "unit/test_ownership.py"

FOLDERS = [
    Mutant(
        "only the lock file keeps a second server out",
        "data_folder.py",
        "        if not _lock(folder, files):\n",
        "        if False:\n",
        f"{DATA_FOLDER}::test_a_folder_is_held_also_when_its_lock_file_is_removed_or_replaced",
    ),
    Mutant(
        "a server of the version before does not keep another one out",
        "data_folder.py",
        "        if not files.lock(lock):\n",
        "        if False:\n",
        f"{DATA_FOLDER}::test_a_server_of_the_version_before_holds_the_folder_by_its_lock_file",
    ),
    Mutant(
        "a link is opened",
        "files.py",
        "os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)",
        "os.open(path, flags | os.O_CLOEXEC, mode)",
        f"{FILES}::test_a_link_is_not_opened",
    ),
    Mutant(
        "a new file is written into what is there",
        "files.py",
        "        self.remove_if_there(path)\n        return self.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)\n",
        "        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)\n",
        f"{FILES}::test_a_new_file_replaces_a_link",
    ),
    Mutant(
        "LMDB is given a name only",
        "storefile/container.py",
        "        files.close(files.create(path))\n",
        "",
        f"{FILES}::test_store_files_and_generations_are_written_past_links",
    ),
    Mutant(
        "the owner of a folder is not looked at",
        "ownership.py",
        "    if status.st_uid not in (os.geteuid(), 0):\n",
        "    if False:\n",
        f"{OWNERSHIP}::test_somebody_elses_folder_is_refused",
    ),
    Mutant(
        "folders below the data folder are not looked at",
        "ownership.py",
        "        if entry.is_dir(follow_symlinks=False) and not is_shared:\n",
        "        if False:\n",
        f"{OWNERSHIP}::test_a_folder_that_others_may_write_to_is_refused",
    ),
    Mutant(
        "links below the data folder are not looked for",
        "ownership.py",
        "        if entry.is_symlink():\n",
        "        if False:\n",
        f"{OWNERSHIP}::test_a_link_anywhere_below_is_refused",
    ),
    Mutant(
        "a failed sync of the catalog does not end the server",
        "catalog/region_server.py",
        "            self._fail_and_end(error)\n            raise\n",
        "            raise\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
    Mutant(
        "a failed sync does not end the process",
        "catalog/region_server.py",
        "        self._on_fatal(error)\n",
        "        pass\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
    Mutant(
        "a region's folder is removed without proof",
        "catalog/leftovers.py",
        "        elif is_proven and holds_what_a_create_makes(path, files):\n",
        "        elif True:\n",
        f"{ASIDE}::test_a_regions_folder_without_proof_is_set_aside",
    ),
    Mutant(
        "a region's folder with a file of unknown kind is removed",
        "catalog/leftovers.py",
        "        elif is_proven and holds_what_a_create_makes(path, files):\n",
        "        elif is_proven:\n",
        f"{ASIDE}::test_a_folder_that_holds_more_than_a_create_makes_is_set_aside",
    ),
    Mutant(
        "a new region removes whatever stands in its place",
        "catalog/region_folders.py",
        "    if is_leftover:\n",
        "    if True:\n",
        f"{ASIDE}::test_a_new_region_sets_aside_what_stands_in_its_place",
    ),
    Mutant(
        "a store file is removed without proof",
        "catalog/leftovers.py",
        "        if is_proven:\n",
        "        if True:\n",
        f"{ASIDE}::test_a_store_file_without_proof_is_set_aside",
    ),
    Mutant(
        "beside damage in the log leftovers count as proven",
        "catalog/leftovers.py",
        "    is_proven = recovered.catalog_generation > 0 and not recovered.gaps\n",
        "    is_proven = recovered.catalog_generation > 0\n",
        f"{ASIDE}::test_beside_damage_in_the_log_nothing_is_removed",
    ),
]
