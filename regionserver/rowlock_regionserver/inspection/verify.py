"""`rowlock-server verify DIR`: checks every checksum in a stopped server's folder, and lists damaged and missing files.

It reads catalog, manifests, store files, answers files and the log, the bulk files that the log names, what open bulk
writes have staged, and the histories of compactions. It also lists unnamed files, which the next start removes or sets
aside, and files that were set aside before.

Exit code 0: intact. 1: damaged, each place on a line of its own. 2: the folder could not be checked (in use, not a
server's folder, of another version). Nothing in the folder is changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rowlock_regionserver.compaction import history
from rowlock_regionserver.errors import CorruptionError, DataFolderError, TooManyOpenFilesError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import compaction_history
from rowlock_regionserver.host.leftovers import Unnamed
from rowlock_regionserver.host.set_aside import list_set_aside
from rowlock_regionserver.inspection.folder import (
    StoredFolder,
    StoredRegion,
    held,
    read_folder,
    read_generations,
)
from rowlock_regionserver.inspection.log import check_log
from rowlock_regionserver.inspection.staged import check_staged
from rowlock_regionserver.inspection.unnamed import lost_generations, unnamed_in
from rowlock_regionserver.log_lines import reason_of
from rowlock_regionserver.region.bulk.bulk_file import WrittenBulkFile, read_bulk_file
from rowlock_regionserver.region.idempotency.answers_file import read_checked
from rowlock_regionserver.region.store_file_names import store_file_path
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.wal import durable
from rowlock_regionserver.wal.mutation import BULK_KINDS, BulkRecord
from rowlock_regionserver.wal.recovered import Recovered

INTACT, DAMAGED, NOT_CHECKED = 0, 1, 2


@dataclass(slots=True)
class Verification:
    """Counts of what was checked, and all damage, in the order of the checks."""

    table_count: int = 0
    region_count: int = 0  # of tables
    snapshot_count: int = 0  # named ones
    store_file_count: int = 0
    log_segment_count: int = 0
    log_record_count: int = 0
    bulk_file_count: int = 0
    bulk_write_count: int = 0  # open ones
    damage: list[CorruptionError] = field(default_factory=list)
    costs: dict[Path, str] = field(default_factory=dict)  # by damaged file, if no data of tables is in it
    remarks: list[str] = field(default_factory=list)  # other findings, not damage


def main(arguments: Sequence[str], stdout: TextIO | None = None, stderr: TextIO | None = None) -> int:
    """Runs the command; see the module."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    parser = argparse.ArgumentParser(
        prog="rowlock-server verify",
        description="Checks every checksum in a stopped server's folder and lists the damage; changes nothing.",
        epilog="Exit codes: 0 intact, 1 damaged, 2 the folder could not be checked.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the data folder (--data of the server)")
    folder: Path = parser.parse_args(arguments).folder.resolve()
    try:
        found = verify(folder, Files())
    except (DataFolderError, TooManyOpenFilesError, OSError, MemoryError) as error:
        stderr.write(f"rowlock-server verify: {reason_of(error)}\n")
        return NOT_CHECKED
    for remark in found.remarks:
        stdout.write(f"{remark}\n")
    for damage in found.damage:
        stdout.write(
            f"damaged: {damage.path} at byte {damage.offset}: expected {damage.expected}, found {damage.found}"
            f"{'; ' if damage.path in found.costs else ''}{found.costs.get(damage.path, '')}\n"
        )
    stdout.write(
        f"{'damaged' if found.damage else 'intact'}: {found.table_count} tables, {found.region_count} regions, "
        f"{found.snapshot_count} named snapshots, {found.store_file_count} store files, "
        f"{found.log_segment_count} log segments with {found.log_record_count} "
        f"changes, {found.bulk_file_count} bulk files, {found.bulk_write_count} open bulk writes; "
        f"{len(found.damage)} damaged places\n"
    )
    if any(damage.path not in found.costs for damage in found.damage):
        stdout.write("'rowlock-server salvage DIR OUT' extracts the intact data\n")
    return DAMAGED if found.damage else INTACT


def verify(folder: Path, files: Files) -> Verification:
    """Checks the folder. Raises DataFolderError when it can't be checked, OSError when it can't be read."""
    found = Verification()
    with held(folder, files):
        verify_folder(folder, files, found)
    return found


def verify_folder(folder: Path, files: Files, found: Verification) -> None:
    """Checks the folder, which the caller has locked. Raises like `verify`."""
    stored = read_folder(folder, files, found.damage)
    found.region_count = len(stored.regions)
    found.table_count = len({region.table.table_id for region in stored.regions})
    found.snapshot_count = len(stored.catalog.body.snapshots) if stored.catalog is not None else 0
    for region in (*stored.regions, *stored.snapshot_regions):
        _verify_store_files(region, files, found)
    for region in stored.regions:
        _verify_history(region, files, found)
    _verify_staged(stored, files, found)
    recovered = _verify_log(stored, files, found)
    if recovered is not None:
        _find_lost_and_unnamed(stored, files, recovered, found)
    for aside in list_set_aside(folder, files):
        found.remarks.append(f"set aside: {aside.path} ({aside.note}); 'rowlock-server remove-set-aside' removes it")


def _verify_store_files(region: StoredRegion, files: Files, found: Verification) -> None:
    """Checks the store files and answers files that the manifest names."""
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


def _verify_history(region: StoredRegion, files: Files, found: Verification) -> None:
    """Checks the history of a region's compactions."""
    damage: list[CorruptionError] = []
    try:
        read_generations(files, region.folder, compaction_history.NAME, history.decode, damage)
    except DataFolderError as error:
        found.remarks.append(f"unreadable: {error}; the next start ignores this history of compactions")
    for each in damage:
        # A folder that can't be listed was reported with its manifest.
        if each.path != region.folder:
            found.damage.append(each)
            found.costs[each.path] = "a start ignores it, as it is only a history of compactions"


def _verify_staged(stored: StoredFolder, files: Files, found: Verification) -> None:
    """Checks what open bulk writes have staged."""
    staged = check_staged(stored, files)
    found.bulk_write_count = staged.write_count
    for error, cost in staged.damage:
        found.damage.append(error)
        found.costs[error.path] = cost
    found.remarks.extend(_remark_of(unnamed) for unnamed in staged.unnamed)


def _remark_of(unnamed: Unnamed) -> str:
    then = "removes it" if unnamed.is_leftover else "sets it aside"
    return f"unnamed: {unnamed.path} ({unnamed.why}); the next start {then}"


def _find_lost_and_unnamed(stored: StoredFolder, files: Files, recovered: Recovered, found: Verification) -> None:
    """Looks for lost generations, with the log's evidence, and for unnamed files."""
    if recovered.last_version > 1 and durable.NAME not in files.list_folder(stored.log_folder):
        found.remarks.append(f"missing: {stored.log_folder / durable.NAME}; the next start makes it")
    try:
        lost = list(lost_generations(stored, files, recovered))
        found.damage.extend(lost)
        for unnamed in [] if lost else unnamed_in(stored, files, recovered):
            found.remarks.append(_remark_of(unnamed))
    except OSError as error:
        found.damage.append(CorruptionError.of(error, stored.folder))


def _verify_log(stored: StoredFolder, files: Files, found: Verification) -> Recovered | None:
    flushed = stored.flushed()

    def check_bulk_file(region_id: int, write_number: int, kind: int, payload: bytes) -> None:
        # Of an unknown region, or flushed: the file may be removed already, and no reader needs it.
        if kind not in BULK_KINDS or write_number <= flushed.get(region_id, write_number):
            return
        record = BulkRecord.decode(payload)
        if record.file_number == 0 or (record.commit_number and record.commit_number not in (stored.commits or ())):
            return
        found.bulk_file_count += 1
        written = WrittenBulkFile(record.file_number, record.file_bytes, record.file_checksum)
        try:
            read_bulk_file(files, stored.bulk_folder, written)
        except CorruptionError as error:
            found.damage.append(error)
        except OSError as error:
            found.damage.append(CorruptionError.of(error, stored.bulk_folder))

    log = check_log(stored, files, check_bulk_file, found.damage)
    found.log_segment_count = log.segment_count
    found.log_record_count = log.recovered.record_count if log.recovered is not None else 0
    return log.recovered
