"""A manifest's entry for a store file: the place of its metadata, and the properties of its cells.

The entry is short whatever the cells are, because each flush rewrites the manifest, with one entry for each file. The
first and the last row are in the file's own metadata, in the block index.
"""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from rowlock_regionserver.storefile.adopted_numbers import AdoptedNumbers
from rowlock_regionserver.storefile.format import FORMAT_VERSION, OLDER_FORMAT_VERSION, WIDE_FORMAT_VERSION

# Places are known only when the file is finished, so the summary inside the file lacks these.
_PLACE_FIELDS = frozenset(
    {"file_bytes", "metadata_offset", "metadata_bytes", "metadata_checksum", "container_checksum"}
)
# Only the manifest has these, because they change while the file stays as it is.
_ADOPTION_FIELDS = frozenset({"write_number_base", "stamp", "commit_number"})
_MANIFEST_FIELDS = frozenset({"is_base", "made_ms", "clip_start", "clip_stop", "written_number"}) | _ADOPTION_FIELDS
# Entries of files that have none lack these, as all entries of earlier versions do.
_LATER_FIELDS = frozenset({"wide_block_count", "older_block_count"}) | _MANIFEST_FIELDS

_FLAGS = frozenset({"has_versions", "is_base"})
_ROWS = frozenset({"clip_start", "clip_stop"})

Json = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class StoreFileInfo:
    """One store file, as written. Immutable."""

    number: int

    # Properties of the cells.
    cell_count: int
    row_count: int
    block_count: int
    write_number_min: int  # NEWEST when there are no cells
    write_number_max: int  # 0 when there are no cells
    timestamp_min: int  # TIMESTAMP_MAX when there are no cells
    timestamp_max: int  # 0 when there are no cells
    delete_version_count: int
    delete_column_count: int
    delete_family_count: int
    has_versions: bool  # some column may have more than one cell; if not, none has

    # Places in the file. Readers check the length first.
    file_bytes: int
    metadata_offset: int
    metadata_bytes: int  # header included
    metadata_checksum: int  # CRC32C of the metadata's payload
    container_checksum: int  # CRC32C of all bytes that are neither a block nor the metadata, in file order

    wide_block_count: int = 0  # `block_count` are the cell blocks
    older_block_count: int = 0  # wide blocks of older lines

    is_base: bool = False  # a major compaction wrote it, or kept it
    made_ms: int = 0  # when the oldest of its cells were flushed, or the base was written; 0: unknown

    # Only the rows [clip_start, clip_stop) of the file count: a split gives a file to two regions. No stop: no bound.
    clip_start: bytes = b""
    clip_stop: bytes = b""
    # The number in the file's header, if the merge of two regions gave the file another one; 0: it is `number`.
    written_number: int = 0
    # Of a file that a bulk write staged: see adopted_numbers.py. The bounds of write numbers and timestamps above are
    # those after adoption; the file's own summary has those that were written.
    write_number_base: int = 0
    stamp: int = 0
    # The entry counts only if the catalog has this commit; 0: it counts.
    commit_number: int = 0

    def __post_init__(self) -> None:
        if self.clip_stop and self.clip_start >= self.clip_stop:
            raise ValueError(f"a clip from {self.clip_start!r} to {self.clip_stop!r}")

    @property
    def is_clipped(self) -> bool:
        """Whether rows of the file may not count."""
        return bool(self.clip_start or self.clip_stop)

    @property
    def is_adopted(self) -> bool:
        """Whether its numbers are others than were written, or it may not count."""
        return bool(self.write_number_base or self.stamp or self.commit_number)

    @property
    def numbers(self) -> AdoptedNumbers:
        """What its readers make of the numbers in the file."""
        return AdoptedNumbers(self.write_number_base, self.stamp)

    def adopted(self, base: int, stamp: int, commit_number: int) -> StoreFileInfo:
        """Returns the entry of a staged file for its commit. `stamp` 0: the cells have timestamps of their own."""
        return replace(
            self,
            write_number_min=self.write_number_min + base,
            write_number_max=self.write_number_max + base,
            timestamp_min=stamp or self.timestamp_min,
            timestamp_max=stamp or self.timestamp_max,
            write_number_base=base,
            stamp=stamp,
            commit_number=commit_number,
        )

    def as_written(self) -> StoreFileInfo:
        """Returns the entry with the bounds that the file has."""
        if not self.is_adopted:
            return self
        return replace(
            self,
            write_number_min=self.write_number_min - self.write_number_base,
            write_number_max=self.write_number_max - self.write_number_base,
            timestamp_min=0 if self.stamp else self.timestamp_min,
            timestamp_max=0 if self.stamp else self.timestamp_max,
            write_number_base=0,
            stamp=0,
            commit_number=0,
        )

    @property
    def header_number(self) -> int:
        """The number in the header of the metadata, and in the summary."""
        return self.written_number or self.number

    @property
    def format_version(self) -> int:
        """The format version in the header of the metadata."""
        if self.older_block_count:
            return OLDER_FORMAT_VERSION
        return WIDE_FORMAT_VERSION if self.wide_block_count else FORMAT_VERSION

    @property
    def tombstone_count(self) -> int:
        """Cells that are not puts."""
        return self.delete_version_count + self.delete_column_count + self.delete_family_count

    def summary(self) -> Json:
        """Returns the part that the file itself has: the properties of its cells."""
        written = self.as_written().to_json()
        own = {name: value for name, value in written.items() if name not in _PLACE_FIELDS | _MANIFEST_FIELDS}
        return {**own, "number": self.header_number}

    def agrees_with(self, summary: Mapping[str, object]) -> bool:
        """Returns whether the file's summary has the same values; extra fields, as of another version, are ignored."""
        return all(summary.get(name) == value for name, value in self.summary().items())

    def to_json(self) -> Json:
        """Returns a dictionary that json can write."""
        # Not by dataclasses.asdict, which copies each value: a start calls this for each file.
        values = [(name, getattr(self, name)) for name in _field_names()]
        return {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in values
            if value or name not in _LATER_FIELDS
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> StoreFileInfo:
        """Reads what to_json returned; extra fields are ignored.

        Raises ValueError that names the fields that are missing or have the wrong type.
        """
        names = _field_names()
        missing = [name for name in names if name not in values and name not in _LATER_FIELDS]
        if missing:
            raise ValueError(f"a store file's description has no {', '.join(missing)}")
        return cls(**{name: _checked(name, values[name]) for name in names if name in values})  # type: ignore[arg-type]  # checked


@functools.cache
def _field_names() -> tuple[str, ...]:
    return tuple([field.name for field in fields(StoreFileInfo)])


def _checked(name: str, value: object) -> int | bytes:
    if name in _ROWS:
        return _row(name, value)
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0 on, not {value!r}")
    return value


def _row(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text in base64, not {value!r}")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{name} must be text in base64, not {value!r}: {error}") from error
