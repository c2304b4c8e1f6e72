"""Broken builds of a data folder's protection: locks, refusals, leftovers, disks; and of a private server's start."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

ASIDE = "unit/host/test_set_aside.py"
DATA_FOLDER = "unit/test_data_folder.py"
DISK = "unit/host/test_disk_failures.py"
FILES = "unit/test_files.py"
LATER = "unit/host/test_later_properties.py"
OWNERSHIP = "unit/test_ownership.py"
TABLES = "unit/host/test_region_server.py"

FOLDERS = [
    Mutant(
        "only the lock file excludes a second server",
        "take_folder_lock",
        "        if not _lock(folder, files):\n",
        "        if False:\n",
        f"{DATA_FOLDER}::test_a_folder_is_held_also_when_its_lock_file_is_removed_or_replaced",
    ),
    Mutant(
        "a server of the previous version does not exclude another one",
        "_take_lock_file",
        "        if not files.lock(lock):\n",
        "        if False:\n",
        f"{DATA_FOLDER}::test_a_server_of_the_version_before_holds_the_folder_by_its_lock_file",
    ),
    Mutant(
        "a link is opened",
        "Files.open",
        "os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)",
        "os.open(path, flags | os.O_CLOEXEC, mode)",
        f"{FILES}::test_a_link_is_not_opened",
    ),
    Mutant(
        "a new file is written into an existing one",
        "Files.create",
        "        self.remove_if_there(path)\n        return self.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)\n",
        "        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)\n",
        f"{FILES}::test_a_new_file_replaces_a_link",
    ),
    Mutant(
        "LMDB gets only a file name",
        "Container.__init__",
        "        descriptor = files.create(path)\n",
        "        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)\n",
        f"{FILES}::test_store_files_and_generations_are_written_past_links",
    ),
    Mutant(
        "the owner of a folder is ignored",
        "check_own",
        "    if status.st_uid not in (os.geteuid(), 0):\n",
        "    if False:\n",
        f"{OWNERSHIP}::test_the_folder_of_another_user_is_refused",
    ),
    Mutant(
        "folders below the data folder are not checked",
        "check_contents",
        "        if entry.is_dir(follow_symlinks=False) and not is_shared:\n",
        "        if False:\n",
        f"{OWNERSHIP}::test_a_folder_that_others_may_write_to_is_refused",
    ),
    Mutant(
        "links below the data folder are not detected",
        "check_contents",
        "        if entry.is_symlink():\n",
        "        if False:\n",
        f"{OWNERSHIP}::test_a_link_anywhere_below_is_refused",
    ),
    Mutant(
        "a failed sync of the catalog does not end the server",
        "DiskFailures.are_final",
        "            self.end(error)\n            raise\n",
        "            raise\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
    Mutant(
        "a failed sync does not end the process",
        "DiskFailures.end",
        "        self._on_fatal(error)\n",
        "        pass\n",
        f"{DISK}::test_a_failed_sync_of_the_catalog_ends_the_server",
    ),
    Mutant(
        "a new region removes a folder of its name",
        "free_region_path",
        "    if region_id in made:\n",
        "    if True:\n",
        "unit/host/test_set_aside.py::test_a_folder_that_could_not_be_set_aside_is_not_removed_by_the_next_table_either",
    ),
    Mutant(
        "a family's number is reused",
        "CatalogState.with_altered_table",
        "            number = next_number if known is None else known.number\n",
        "            number = 1 + len(families) if known is None else known.number\n",
        f"{TABLES}::test_a_dropped_familys_cells_are_gone_also_for_a_later_family_of_the_same_name[True]",
    ),
    Mutant(
        "a region's folder is removed without proof",
        "unnamed_region_folders",
        "        elif is_proven and holds_what_a_create_makes(path, files):\n",
        "        elif True:\n",
        f"{ASIDE}::test_a_regions_folder_without_proof_is_set_aside",
    ),
    Mutant(
        "a region's folder with a file of unknown kind is removed",
        "unnamed_region_folders",
        "        elif is_proven and holds_what_a_create_makes(path, files):\n",
        "        elif is_proven:\n",
        f"{ASIDE}::test_a_folder_that_holds_more_than_a_create_makes_is_set_aside",
    ),
    Mutant(
        "a store file is removed without proof",
        "unnamed_files_of_region",
        "        if is_proven:\n",
        "        if True:\n",
        f"{ASIDE}::test_a_store_file_without_proof_is_set_aside",
    ),
    Mutant(
        "leftovers count as proven although the log is damaged",
        "unnamed_region_folders",
        "    is_proven = recovered.catalog_generation > 0 and not recovered.gaps\n",
        "    is_proven = recovered.catalog_generation > 0\n",
        f"{ASIDE}::test_beside_damage_in_the_log_nothing_is_removed",
    ),
    Mutant(
        "a file that is removed is cut under its other name",
        "Files.free_unlinked",
        "            if not status.st_nlink:\n",
        "            if True:\n",
        f"{FILES}::test_a_file_with_another_name_is_not_cut",
    ),
    Mutant(
        "an unknown property stops the compactions and alters of its table",
        "settings_of",
        " if name in PROPERTY_NAMES",
        "",
        f"{LATER}::test_a_table_with_an_unknown_property_is_compacted_by_hand",
    ),
    Mutant(
        "an unknown property may be set",
        "check_set_properties",
        "    if unknown:\n",
        "    if False:\n",
        f"{LATER}::test_an_unknown_property_is_refused_in_what_is_set",
    ),
    Mutant(
        "a field that a later version has written is lost with the next change of the catalog",
        "entry_to_json",
        "        **entry.later_fields,\n",
        "",
        f"{LATER}::test_all_changes_of_a_table_keep_what_is_unknown",
    ),
    Mutant(
        "a private server is started without the given settings",
        "start_server",
        ', "--embedded", *configured]',
        ', "--embedded"]',
        "end_to_end/test_client_open.py::test_settings_are_those_of_the_server_that_is_started",
        CLIENT,
    ),
    Mutant(
        "the name of a TOML file begins with that of a setting",
        "given_settings",
        "_SETTING_NAME.fullmatch(name)",
        "_SETTING_NAME.match(name)",
        "unit/client/test_connecting.py::test_what_is_no_setting_is_refused",
        CLIENT,
    ),
]
