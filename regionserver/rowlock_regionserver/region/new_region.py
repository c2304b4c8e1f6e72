"""The folder of a new region, which may replace another region."""

from __future__ import annotations

from pathlib import Path

from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.applied_limits import limits_of
from rowlock_regionserver.region.idempotency.manifest_answers import AnswerSource, LostAnswers, with_answers
from rowlock_regionserver.region.manifest import Manifest, write_first_manifest
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.table import Table


def make_region_folder(
    files: Files, folder: Path, region_id: int, table: Table, config: Config, answers: AnswerSource | None = None
) -> None:
    """Makes a region's folder with its first manifest; durable when it returns. `answers`: of the replaced region."""
    files.make_folder(folder)
    manifest = Manifest(region_id, table.table_id, limits=limits_of(table))
    if answers is not None:
        bytes_max = config.manifest_answers_bytes_max
        manifest = with_answers(manifest, answers, 0, files, folder, table.number_by_name, bytes_max, lambda: 1)
    write_first_manifest(files, folder, manifest)
    files.fsync_folder(folder.parent)


def inherited_answers(region: Region | None) -> AnswerSource:
    """Returns the saved answers of a region for the one that replaces it. None means a damaged, unreadable region."""
    return LostAnswers() if region is None else region.saved_answers()
