"""`rowlock-server verify DIR`: checks every checksum in a stopped server's folder and names what is damaged.

Exit code 0: whole. 1: damaged, each place on a line of its own. 2: it could not be checked (in use, not a server's
folder, of another version, unreadable). Nothing in the folder is changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rowlock_regionserver.errors import CorruptionError, DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.folder import StoredFolder, StoredRegion, held, read_folder
from rowlock_regionserver.inspection.log import check_log
from rowlock_regionserver.region.answers_file import read_checked
from rowlock_regionserver.region.bulk_file import WrittenBulkFile, read_bulk_file
from rowlock_regionserver.region.flush import store_file_path
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.wal.mutation import KIND_BULK, BulkRecord

WHOLE, DAMAGED, NOT_CHECKED = 0, 1, 2


@dataclass(slots=True)
class Verification:
    """What was checked, and every damage that was found, in the order of checking."""

    table_count: int = 0
    region_count: int = 0
    store_file_count: int = 0
    log_segment_count: int = 0
    log_record_count: int = 0
    bulk_file_count: int = 0
    damage: list[CorruptionError] = field(default_factory=list)


def main(arguments: Sequence[str], stdout: TextIO | None = None, stderr: TextIO | None = None) -> int:
    """Runs the command; see the module."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    parser = argparse.ArgumentParser(
        prog="rowlock-server verify",
        description="Checks every checksum in a stopped server's folder and names what is damaged; changes nothing.",
        epilog="Exit codes: 0 whole, 1 damaged, 2 it could not be checked.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="what the server was given as --data")
    folder: Path = parser.parse_args(arguments).folder
    try:
        found = verify(folder, Files())
    except (DataFolderError, OSError) as error:
        stderr.write(f"rowlock-server verify: {error}\n")
        return NOT_CHECKED
    for damage in found.damage:
        stdout.write(
            f"damaged: {damage.path} at byte {damage.offset}: {damage.expected} expected, {damage.found} found\n"
        )
    stdout.write(
        f"{'damaged' if found.damage else 'whole'}: {found.table_count} tables, {found.region_count} regions, "
        f"{found.store_file_count} store files, {found.log_segment_count} log segments with {found.log_record_count} "
        f"changes, {found.bulk_file_count} bulk files; {len(found.damage)} damaged places\n"
    )
    if found.damage:
        stdout.write("'rowlock-server salvage DIR OUT' writes out what is whole\n")
    return DAMAGED if found.damage else WHOLE


def verify(folder: Path, files: Files) -> Verification:
    """Checks the folder. Raises DataFolderError when it can't be checked, OSError when it can't be read."""
    found = Verification()
    with held(folder, files):
        stored = read_folder(folder, files, found.damage)
        found.region_count = len(stored.regions)
        found.table_count = len({region.table.table_id for region in stored.regions})
        for region in stored.regions:
            _verify_store_files(region, files, found)
        _verify_log(stored, files, found)
    return found


def _verify_store_files(region: StoredRegion, files: Files, found: Verification) -> None:
    """Those that the manifest names; what it doesn't name is not the region's any more. Its answers files too."""
    if region.manifest is None:
        return
    for answers_file in region.manifest.answers_files:
        try:
            read_checked(files, region.folder, answers_file)
        except CorruptionError as error:
            found.damage.append(error)
    for family_number, infos in region.manifest.store_files.items():
        for info in infos:
            found.store_file_count += 1
            path = store_file_path(region.folder, family_number, info.number)
            found.damage.extend(verify_store_file(path, info, files))


def _verify_log(stored: StoredFolder, files: Files, found: Verification) -> None:
    flushed = stored.flushed()

    def check_bulk_file(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
        # Of an unknown region, or flushed: the file may be gone already, and nobody will read it.
        if kind != KIND_BULK or write_number <= flushed.get(region_id, write_number):
            return
        record = BulkRecord.decode(payload)
        if record.file_number == 0:
            return
        found.bulk_file_count += 1
        written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
        try:
            read_bulk_file(files, stored.bulk_folder, written)
        except CorruptionError as error:
            found.damage.append(error)

    log = check_log(stored.log_folder, files, check_bulk_file, flushed, found.damage)
    found.log_segment_count = log.segment_count
    found.log_record_count = log.recovered.record_count if log.recovered is not None else 0
