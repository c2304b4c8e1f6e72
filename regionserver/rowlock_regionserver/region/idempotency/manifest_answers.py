"""Which saved answers a manifest lists itself, and which are in answers files that it names.

Each flush writes a whole manifest, and answers may be saved for an hour. So that the answers of one large batch are not
written with every flush, each answer is written only once, or a few times:

1. A flush saves the answers of its own writes, and those that the manifest before it listed. These are usually few,
   because clients raise their floors, and the manifest lists them.
2. More than `manifest_answers_bytes_max` go to a new answers file. The new file takes over the newest files that are no
   larger than itself, so that there are few files. It also takes over a file of which half has been forgotten, and all
   newer ones.
3. The manifest no longer names a file whose answers have all been forgotten.

The answers are read twice, once to count them and once to write them, in small steps, so no write waits for a flush.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from rowlock_regionserver.cells import NEWEST
from rowlock_regionserver.files import Files
from rowlock_regionserver.process import yield_now
from rowlock_regionserver.region.idempotency.answer import SavedAnswer
from rowlock_regionserver.region.idempotency.answer_size import bytes_of_cells
from rowlock_regionserver.region.idempotency.answers_file import AnswersFile, answers_path, write_answers
from rowlock_regionserver.region.manifest import Manifest

# Bytes of an answer in a manifest without its row and cells.
_ANSWER_BYTES = 220
_BEFORE_ALL = -1


class AnswerSource(Protocol):
    """The saved answers of a region; see IdempotencyTable."""

    def saved(self, after: int, through: int) -> Iterator[list[SavedAnswer]]: ...

    def forgotten_ms_ago(self) -> int | None: ...


@dataclass(slots=True)
class _LiveAnswers:
    """The answers of one answers file that are not forgotten yet; without a file, those in no file yet."""

    file: AnswersFile | None
    answer_count: int = 0
    byte_count: int = 0

    def add(self, answer: SavedAnswer) -> None:
        self.answer_count += 1
        self.byte_count += _ANSWER_BYTES + len(answer.row)
        self.byte_count += bytes_of_cells(answer.result)

    @property
    def is_half_forgotten(self) -> bool:
        return self.file is not None and 2 * self.answer_count < self.file.answer_count


def with_answers(
    manifest: Manifest,
    source: AnswerSource,
    through: int,
    files: Files,
    folder: Path,
    family_numbers: Mapping[bytes, int],
    listed_bytes_max: int,
    new_number: Callable[[], int],
) -> Manifest:
    """Returns the manifest with the answers of the writes up to `through`. A new answers file is durable by then.

    `new_number` returns the number of a new file. Raises OSError; then no new file remains.
    """
    live, unsaved = _count(manifest.answers_files, source, through)
    place = _first_to_write(live, unsaved, listed_bytes_max)
    unchanged = tuple(each.file for each in live[:place] if each.file is not None)
    after = unchanged[-1].write_number_max if unchanged else _BEFORE_ALL
    answers = source.saved(after, through)
    manifest = replace(manifest, answers=(), answers_files=unchanged, forgotten_ms_ago=source.forgotten_ms_ago())
    if unsaved.byte_count + sum(each.byte_count for each in live[place:]) <= listed_bytes_max:
        return replace(manifest, answers=tuple(itertools.chain.from_iterable(answers)))
    number = new_number()
    written = write_answers(files, folder, number, through, answers, family_numbers)
    next_number = max(manifest.next_file_number, number + 1)
    return replace(manifest, answers_files=(*unchanged, written), next_file_number=next_number)


def _count(
    answers_files: Sequence[AnswersFile], source: AnswerSource, through: int
) -> tuple[list[_LiveAnswers], _LiveAnswers]:
    """Counts the answers of each file that has any left, and those that are in no file yet."""
    parts = [*(_LiveAnswers(file) for file in answers_files), _LiveAnswers(None)]
    bounds = [file.write_number_max for file in answers_files]
    for some in source.saved(_BEFORE_ALL, through):
        for answer in some:
            parts[bisect_left(bounds, answer.write_number)].add(answer)
        yield_now()
    return [part for part in parts[:-1] if part.answer_count], parts[-1]


def _first_to_write(live: Sequence[_LiveAnswers], unsaved: _LiveAnswers, listed_bytes_max: int) -> int:
    """Returns the index of the first file whose answers go to the new one; the number of files if none do."""
    place = next((i for i, each in enumerate(live) if each.is_half_forgotten), len(live))
    byte_count = unsaved.byte_count + sum(each.byte_count for each in live[place:])
    if byte_count > listed_bytes_max:
        while place and live[place - 1].byte_count <= byte_count:
            place -= 1
            byte_count += live[place].byte_count
    return place


def unnamed_answers(manifest: Manifest, named: Manifest, folder: Path) -> set[Path]:
    """Returns the paths of the answers files that `manifest` names and `named` does not."""
    numbers = {file.number for file in manifest.answers_files} - {file.number for file in named.answers_files}
    return {answers_path(folder, number) for number in numbers}


class InheritedAnswers:
    """The saved answers of a region for a new one that replaces it, where they belong to write number 0."""

    def __init__(self, source: AnswerSource, through: int = NEWEST) -> None:
        """`through`: of the writes up to this number."""
        self._source = source
        self._through = through

    def saved(self, after: int, through: int) -> Iterator[list[SavedAnswer]]:
        assert after < 0 <= through, (after, through)
        for answers in self._source.saved(_BEFORE_ALL, self._through):
            yield [replace(answer, write_number=0) for answer in answers]

    def forgotten_ms_ago(self) -> int | None:
        return self._source.forgotten_ms_ago()


class LostAnswers:
    """The answers of a damaged region for the empty one that replaces it: none, all forgotten just now."""

    def saved(self, after: int, through: int) -> Iterator[list[SavedAnswer]]:
        return iter(())

    def forgotten_ms_ago(self) -> int | None:
        return 0
