"""The manifest: which store files of a region are live, and up to which write number replay may skip the log.

A manifest is small and immutable; each change writes a new generation (generations.py). Only a flush moves the flushed
write number: every write up to it is in the store files named here, so replay skips it. After a split or a merge, the
newest of these writes are in the manifest itself until the first flush.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import AnswerCell, RowResult
from rowlock_regionserver.process_limits import memory_error_refused
from rowlock_regionserver.region.applied_limits import AppliedLimits
from rowlock_regionserver.region.idempotency.answer import SavedAnswer
from rowlock_regionserver.region.idempotency.answers_file import AnswersFile
from rowlock_regionserver.region.retained_changes import RetainedChanges
from rowlock_regionserver.region.unflushed_cells import CellsOfFamilies, stream_of, table_of
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.wal.record import NOWHERE, Position

NAME = "manifest"
# Version 1 also had the first and last row of each store file, and servers of that version refuse manifests without.
# Version 3 may have store files that are clipped or have another number in their headers. Earlier servers would ignore
# these fields, and serve rows of other regions. So it is written only with such files, and they refuse it then.
# Version 4 may have store files that a bulk write staged: their numbers are others than were written, or they count
# only with a commit. It is written only with such files too.
# Version 5 may have cells that no store file has, which earlier servers would ignore. It is written only with some.
FORMAT_VERSION = 5
_VERSION_OF_ADOPTED_FILES = 4
_VERSION_OF_CLIPPED_FILES = 3
_VERSION_OF_WHOLE_FILES = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """A region's durable state outside the log."""

    region_id: int
    table_id: int
    flushed_write_number: int = 0
    next_file_number: int = 1
    # Store files by family number, newest first.
    store_files: dict[int, tuple[StoreFileInfo, ...]] = field(default_factory=dict)
    # Saved answers (manifest_answers.py), and the files with more of them, the oldest first.
    answers: tuple[SavedAnswer, ...] = ()
    log_position: Position = NOWHERE  # how far the log was durable when this was written
    answers_files: tuple[AnswersFile, ...] = ()
    # How long before this manifest the region last heard of a client that it had forgotten by then; None if of none.
    forgotten_ms_ago: int | None = None
    # Whether the region's stamp reservation in the log was moved by its own stamps alone; False if unknown, as in
    # manifests of earlier versions.
    stamps_are_own: bool = True
    # Stamps below this may have been used by the regions whose rows this one has taken over; 0: its own reservation in
    # the log counts, because it was split off, or has flushed since.
    stamps_until: int = 0
    # By family number. Manifests of earlier versions have none: the region has applied those of the catalog.
    limits: dict[int, AppliedLimits] = field(default_factory=dict)
    # Of the change feed; None: the table has none, or an earlier version wrote the manifest.
    changes: RetainedChanges | None = None
    # Cells that no store file has, although their write numbers are not above the flushed write number. The next flush
    # writes them to store files.
    unflushed_cells: CellsOfFamilies = field(default_factory=dict)

    @property
    def format_version(self) -> int:
        """The least version that has what is in it."""
        if self.unflushed_cells:
            return FORMAT_VERSION
        infos = [info for of_family in self.store_files.values() for info in of_family]
        if any(info.is_adopted for info in infos):
            return _VERSION_OF_ADOPTED_FILES
        is_whole = not any(info.is_clipped or info.written_number for info in infos)
        return _VERSION_OF_WHOLE_FILES if is_whole else _VERSION_OF_CLIPPED_FILES

    @property
    def newest_number(self) -> int:
        """A write number that no write in these files is above. All up to the flushed number are in them."""
        infos = [info for of_family in self.store_files.values() for info in of_family]
        return max([self.flushed_write_number, *(info.write_number_max for info in infos)])

    def counted(self, commits: Collection[int]) -> Manifest:
        """Returns the manifest without the files of bulk writes that are not among the commits of the catalog.

        Those of the others count from then on without a condition.
        """
        if not any(info.commit_number for infos in self.store_files.values() for info in infos):
            return self
        return replace(
            self,
            store_files={
                number: tuple(
                    [
                        replace(info, commit_number=0)
                        for info in infos
                        if not info.commit_number or info.commit_number in commits
                    ]
                )
                for number, infos in self.store_files.items()
            },
        )

    def encode(self) -> bytes:
        return json.dumps(
            {
                "region_id": self.region_id,
                "table_id": self.table_id,
                "flushed_write_number": self.flushed_write_number,
                "next_file_number": self.next_file_number,
                "store_files": {
                    str(family): [info.to_json() for info in infos] for family, infos in self.store_files.items()
                },
                "answers": [_answer_to_json(answer) for answer in self.answers],
                "log_position": self.log_position,
                "answers_files": [file.to_json() for file in self.answers_files],
                "forgotten_ms_ago": self.forgotten_ms_ago,
                "stamps_are_own": self.stamps_are_own,
                **({"stamps_until": self.stamps_until} if self.stamps_until else {}),
                "limits": {str(family): limits.to_json() for family, limits in self.limits.items()},
                **({"changes": self.changes.to_json()} if self.changes is not None else {}),
                **({"unflushed_cells": _unflushed_to_json(self.unflushed_cells)} if self.unflushed_cells else {}),
            }
        ).encode()

    @staticmethod
    def decode(body: bytes) -> Manifest:
        fields = json.loads(body)
        return Manifest(
            region_id=fields["region_id"],
            table_id=fields["table_id"],
            flushed_write_number=fields["flushed_write_number"],
            next_file_number=fields["next_file_number"],
            store_files={
                int(family): tuple(StoreFileInfo.from_json(info) for info in infos)
                for family, infos in fields["store_files"].items()
            },
            answers=tuple(_answer_from_json(answer) for answer in fields["answers"]),
            log_position=Position(*fields.get("log_position", NOWHERE)),  # Manifests of version 0.1.0 have none.
            # Manifests of earlier versions have none of these.
            answers_files=tuple(AnswersFile.from_json(file) for file in fields.get("answers_files", ())),
            forgotten_ms_ago=fields.get("forgotten_ms_ago"),
            stamps_are_own=fields.get("stamps_are_own", False),
            stamps_until=fields.get("stamps_until", 0),
            limits={
                int(family): AppliedLimits.from_json(limits, limits["past"])
                for family, limits in fields.get("limits", {}).items()
            },
            changes=RetainedChanges.from_json(fields["changes"]) if "changes" in fields else None,
            unflushed_cells=_unflushed_from_json(fields.get("unflushed_cells", {})),
        )


@dataclass(frozen=True, slots=True)
class LiveManifest:
    """The newest manifest, its folder, and its generation number."""

    folder: Path
    generation: int
    manifest: Manifest

    def replaced(self, files: Files, manifest: Manifest) -> LiveManifest:
        """Makes `manifest` the next generation; durable when it returns. Raises the errors of generations.write."""
        write_manifest(files, self.folder, self.generation + 1, manifest)
        return LiveManifest(self.folder, self.generation + 1, manifest)


def write_manifest(files: Files, folder: Path, number: int, manifest: Manifest) -> None:
    """Makes the manifest live under this generation number; durable when it returns."""
    with memory_error_refused(folder / NAME):
        body = manifest.encode()
    generations.write(files, folder, NAME, number, body, version=manifest.format_version)


def write_first_manifest(files: Files, folder: Path, manifest: Manifest) -> None:
    """Writes the manifest of a folder that nothing names yet; durable when it returns. See generations.write_first."""
    generations.write_first(files, folder, NAME, manifest.encode(), version=manifest.format_version)


def read_manifest(files: Files, folder: Path) -> LiveManifest:
    """Reads the newest generation. Raises CorruptionError if it is damaged; never falls back to an older one."""
    try:
        number, body = generations.read_newest(files, folder, NAME, version_max=FORMAT_VERSION)
    except FileNotFoundError:
        raise CorruptionError.missing(folder / NAME, "a manifest", "none") from None
    try:
        return LiveManifest(folder, number, Manifest.decode(body))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(folder / NAME, 0, "a manifest of this version", repr(error)) from error


def _unflushed_to_json(cells: CellsOfFamilies) -> dict[str, str]:
    return {str(family): _text(stream_of(table)) for family, table in cells.items()}


def _unflushed_from_json(streams: dict[str, str]) -> CellsOfFamilies:
    return {int(family): table_of(base64.b64decode(stream)) for family, stream in streams.items()}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cells_to_json(cells: tuple[AnswerCell, ...]) -> list[list[str | int]]:
    return [[_text(family), _text(qualifier), timestamp, _text(value)] for family, qualifier, timestamp, value in cells]


def _cells_from_json(cells: list[tuple[str, str, int, str]]) -> tuple[AnswerCell, ...]:
    decode = base64.b64decode
    return tuple((decode(cell[0]), decode(cell[1]), cell[2], decode(cell[3])) for cell in cells)


def _answer_to_json(answer: SavedAnswer) -> dict[str, object]:
    result = answer.result
    return {
        "client": _text(answer.client),
        "sequence": answer.sequence,
        "floor": answer.floor,
        "row": _text(answer.row),
        "write_number": answer.write_number,
        "condition_met": result.condition_met,
        "seen": _cells_to_json(result.seen),
        "results": _cells_to_json(result.results),
        "timestamp": result.timestamp,
        **({"answer": _text(result.answer)} if result.answer else {}),
        "is_cut": answer.is_cut,
        "is_bulk": answer.is_bulk,
    }


def _answer_from_json(fields: dict[str, object]) -> SavedAnswer:
    text = {name: value for name, value in fields.items() if isinstance(value, str)}
    number = {name: value for name, value in fields.items() if isinstance(value, int)}
    cells = {name: value for name, value in fields.items() if isinstance(value, list)}
    result = RowResult(
        condition_met=number["condition_met"] != 0,
        seen=_cells_from_json(cells["seen"]),
        results=_cells_from_json(cells["results"]),
        timestamp=number["timestamp"],
        answer=base64.b64decode(text.get("answer", "")),  # of a procedure
    )
    return SavedAnswer(
        client=base64.b64decode(text["client"]),
        sequence=number["sequence"],
        floor=number["floor"],
        row=base64.b64decode(text["row"]),
        write_number=number["write_number"],
        result=result,
        # Manifests of earlier versions lack these.
        is_cut=number.get("is_cut", 0) != 0,
        is_bulk=number["is_bulk"] != 0 if "is_bulk" in number else None,
    )
