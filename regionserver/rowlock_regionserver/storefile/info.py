"""What the manifest keeps of a store file: where its metadata lies, and what is known of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

_BYTES_FIELDS = frozenset({"first_row", "last_row"})

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
    first_row: bytes
    last_row: bytes  # inclusive
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

    def to_json(self) -> Json:
        """A dictionary that json can write; bytes as hexadecimal digits."""
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> StoreFileInfo:
        """What to_json gave. ValueError names what is missing, unknown or of the wrong type."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            raise ValueError(f"a store file's description differs in the fields {sorted(names ^ set(values))}")
        return cls(**{name: _checked(name, value) for name, value in values.items()})  # type: ignore[arg-type]  # checked


def _checked(name: str, value: object) -> int | bytes:
    if name in _BYTES_FIELDS:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be hexadecimal digits, it is {value!r}")
        return bytes.fromhex(value)
    if name == "has_versions":
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, it is {value!r}")
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a whole number, it is {value!r}")
    return value
