"""What the manifest keeps of a store file: where its metadata lies, and what is known of its cells.

All of it is short, whatever the cells are: the manifest is written anew with each flush and has one for each file. The
first and the last row stand in the file's own metadata, in the block index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

# Where things lie is known only when the file is finished, so the summary inside the file is without these.
_PLACE_FIELDS = frozenset(
    {"file_bytes", "metadata_offset", "metadata_bytes", "metadata_checksum", "container_checksum"}
)

Json = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class StoreFileInfo:
    """One store file, as written. Never changes."""

    number: int

    # What is known of the cells.
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
    has_versions: bool  # some column has more than one cell

    # Where things lie in the file. Readers check the length first of all.
    file_bytes: int
    metadata_offset: int
    metadata_bytes: int  # header included
    metadata_checksum: int  # CRC32C of the metadata's payload
    container_checksum: int  # CRC32C of all bytes that are neither a block nor the metadata, in file order

    @property
    def tombstone_count(self) -> int:
        """Cells that are not puts."""
        return self.delete_version_count + self.delete_column_count + self.delete_family_count

    def summary(self) -> Json:
        """What the file itself says of its cells."""
        return {name: value for name, value in self.to_json().items() if name not in _PLACE_FIELDS}

    def agrees_with(self, summary: Mapping[str, object]) -> bool:
        """The file says the same of its cells; what else it says, as one of another version may, is not looked at."""
        return all(summary.get(name) == value for name, value in self.summary().items())

    def to_json(self) -> Json:
        """A dictionary that json can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> StoreFileInfo:
        """What to_json gave, and perhaps more. ValueError names what is missing or of the wrong type."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in values]
        if missing:
            raise ValueError(f"a store file's description has no {', '.join(missing)}")
        return cls(**{name: _checked(name, values[name]) for name in names})  # type: ignore[arg-type]  # checked


def _checked(name: str, value: object) -> int:
    if name == "has_versions":
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, it is {value!r}")
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number, it is {value!r}")
    return value
