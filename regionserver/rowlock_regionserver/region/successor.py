"""The folder of a region that takes over the rows of others, after a split or a merge.

Its store files are hard links to theirs (linked_files.py), with a clip if they have rows of another region too, so it
takes no space and no time that depends on their size. Cells that were only in memory are in its first manifest. Its
write numbers go on from theirs.

A merged store has the files of the left region before those of the right one. They have no row in common, so their
order does not matter: each region's own files keep theirs, and a row is in those of one region.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionTooBusyError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.applied_limits import AppliedLimits, limits_of
from rowlock_regionserver.region.idempotency.answer import SavedAnswer
from rowlock_regionserver.region.idempotency.manifest_answers import AnswerSource, with_answers
from rowlock_regionserver.region.linked_files import LinkedFiles
from rowlock_regionserver.region.manifest import LiveManifest, Manifest, write_first_manifest
from rowlock_regionserver.region.predecessor import Predecessor
from rowlock_regionserver.region.region_parts import MadeFolder
from rowlock_regionserver.region.retained_changes import RetainedChanges, merged
from rowlock_regionserver.region.unflushed_cells import taken_over


def finish_successor_folder(
    files: Files,
    linked: LinkedFiles,
    region_id: int,
    predecessors: Sequence[Predecessor],
    stamps_until: int,
    config: Config,
) -> MadeFolder:
    """Links the last files, and writes the first manifest. Durable, except the folder's own name. Returns both.

    `predecessors`: in row order. `stamps_until`: they and clients' timestamp ranges may have used stamps below it.
    Raises RegionTooBusyError if regions to merge have applied different limits, DiskFullError and OSError.
    """
    table, folder, bounds = predecessors[0].table, linked.folder, linked.bounds
    manifest = Manifest(
        region_id,
        table.table_id,
        flushed_write_number=max([each.write_number for each in predecessors]),
        store_files=linked.follow([each.store_files for each in predecessors]),
        log_position=max([each.log_position for each in predecessors]),
        stamps_are_own=all(each.stamps_are_own for each in predecessors),
        stamps_until=stamps_until,
        limits=common_limits(predecessors),
        changes=_changes(predecessors, *bounds),
        unflushed_cells=taken_over([each.cells for each in predecessors], *bounds),
    )
    manifest = with_answers(
        manifest,
        _AnswersOfRows([each.answers for each in predecessors], *bounds),
        0,
        files,
        folder,
        table.number_by_name,
        config.manifest_answers_bytes_max,
        linked.new_number,
    )
    manifest = replace(manifest, next_file_number=linked.new_number())
    write_first_manifest(files, folder, manifest)
    return MadeFolder(LiveManifest(folder, 1, manifest), linked.opened())


def common_limits(predecessors: Sequence[Predecessor]) -> dict[int, AppliedLimits]:
    """Returns the limits that all have applied. Raises RegionTooBusyError if they have applied different ones.

    Limits from before an alter are remembered by write numbers, and each region has its own.
    """
    limits = limits_of(predecessors[0].table)
    if len(predecessors) > 1 and any(
        each.past for predecessor in predecessors for each in limits_of(predecessor.table).values()
    ):
        table = predecessors[0].table.name
        raise RegionTooBusyError(
            f"the regions of table {table!r} have cells from before its limits were altered, so they can't be merged; "
            "compact the table with major=True, and merge then",
            table=table,
            retry_after_ms=1000,
        )
    return limits


def _changes(predecessors: Sequence[Predecessor], start: bytes, stop: bytes) -> RetainedChanges | None:
    of_regions = [each.changes for each in predecessors if each.changes is not None]
    return merged(of_regions).clipped(start, stop) if len(of_regions) == len(predecessors) else None


class _AnswersOfRows:
    """The saved answers of several regions that may be requested again from a region with the rows [start, stop)."""

    def __init__(self, sources: Sequence[AnswerSource], start: bytes, stop: bytes) -> None:
        self._sources = sources
        self._start, self._stop = start, stop

    def saved(self, after: int, through: int) -> Iterator[list[SavedAnswer]]:
        for source in self._sources:
            for answers in source.saved(after, through):
                yield [answer for answer in answers if self._may_be_requested(answer)]

    def _may_be_requested(self, answer: SavedAnswer) -> bool:
        """Returns whether its request may have rows of the region: that of a bulk batch may have any."""
        if answer.is_bulk is not False:
            return True
        return self._start <= answer.row and (not self._stop or answer.row < self._stop)

    def forgotten_ms_ago(self) -> int | None:
        return min(
            [ago for ago in (each.forgotten_ms_ago() for each in self._sources) if ago is not None], default=None
        )
