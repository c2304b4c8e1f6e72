"""Requests to the catalog; arguments are checked before they are sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rowlock_proto.v1 import catalog_pb2, types_pb2

from rowlock._codec.columns import Name, encoded_family, encoded_row, listed
from rowlock.errors import DeadlineError, InvalidArgumentError
from rowlock.schema import MAPPING_PROPERTY, Family, durability_message, family_message

if TYPE_CHECKING:
    from rowlock.mapping import Mapping as RowMapping

TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
# A named snapshot is read as the table of this prefix and its name.
SNAPSHOT_PREFIX = "@"


def check_table_name(name: str, argument: str = "name") -> None:
    """Raises InvalidArgumentError unless it can be the name of a table, or `@NAME` of a named snapshot.

    Raises TypeError if it is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a str, the name of a table, not {type(name).__name__}")
    if TABLE_NAME.fullmatch(name.removeprefix(SNAPSHOT_PREFIX)) is None:
        raise InvalidArgumentError(
            f"{name[:300]!r} is not the name of a table: 1 to 255 letters, digits, '_', '-' and '.' of ASCII, starting "
            "with a letter, digit or '_'"
        )


def flush_continues(table: str, address: str, seconds: float, error: DeadlineError) -> DeadlineError:
    """Returns the error of a flush that was not answered in time."""
    return DeadlineError(
        f"the flush of table {table!r} did not end within {seconds:g} s ({error.message}); if the server at {address} "
        "has begun it, it continues, and a later flush of the table waits for it",
        table=table,
    )


def property_texts(properties: Mapping[str, object] | None) -> dict[str, str]:
    """Returns properties as text: True is "true", 5 is "5". Raises TypeError. The server knows the names and values."""
    if properties is not None and not isinstance(properties, Mapping):
        raise TypeError(
            f"properties must be a mapping of names to values, as in {{'compaction.automatic': False}}, "
            f"not {properties!r:.100}"
        )
    return {_property_name(name): _property_text(name, value) for name, value in (properties or {}).items()}


def _property_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a property must be str, not {type(name).__name__}")
    if name == MAPPING_PROPERTY:
        raise InvalidArgumentError("the mapping of a table is set by the argument mapping, not as a property")
    return name


def _property_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise TypeError(f"the value of property {name!r} must be str, bool, int or float, not {type(value).__name__}")
    return str(value)


def create_request(
    name: str,
    families: Mapping[str, Family] | Iterable[str] | None,
    durability: str,
    splits: Iterable[Name],
    properties: Mapping[str, object] | None = None,
    mapping: RowMapping | None = None,
) -> catalog_pb2.CreateTableRequest:
    """families: None: those of the mapping, which the table keeps."""
    check_table_name(name)
    if families is None and mapping is not None:
        from rowlock._core.mapping_requests import families_of

        families = families_of(mapping)
    if isinstance(families, str | bytes) or not isinstance(families, Iterable):
        raise TypeError(
            f"families must be a mapping of names to rowlock.Family, or a list of names, as in ['f'], "
            f"not {families!r:.100}"
        )
    # By the encoded name: then an unhashable name raises the error of encoded_family.
    named = families if isinstance(families, Mapping) else {encoded_family(family): Family() for family in families}
    if not named:
        raise InvalidArgumentError("a table has at least one column family")
    request = catalog_pb2.CreateTableRequest(
        table=types_pb2.TableDescriptor(
            name=name,
            families=[family_message(family, settings) for family, settings in named.items()],
            durability=durability_message(durability),
            properties=property_texts(properties),
        ),
        splits=[encoded_row(split) for split in listed("splits", "rows", splits)],
    )
    if mapping is not None:
        from rowlock._core.mapping_requests import set_mapping

        set_mapping(request, mapping)
    return request


def parsed_mapping(mapping: RowMapping | str) -> RowMapping:
    """Returns the mapping. Raises MappingError. Imports pyarrow, which is slow, only now."""
    from rowlock.mapping import as_mapping

    return as_mapping(mapping)


def alter_request(
    name: str,
    set_families: Mapping[str, Family] | None,
    drop_families: Iterable[str],
    durability: str | None,
    properties: Mapping[str, object] | None = None,
    *,
    has_mapping: bool = False,
) -> catalog_pb2.AlterTableRequest:
    """Properties that are None are dropped. has_mapping: the caller sets a mapping in the request."""
    check_table_name(name)
    if properties is not None and not isinstance(properties, Mapping):
        property_texts(properties)  # Raises its TypeError.
    changed = {key: value for key, value in (properties or {}).items() if value is not None}
    if set_families is not None and not isinstance(set_families, Mapping):
        raise TypeError(
            "set_families must be a mapping of names to all settings of these families, as in {'f': rowlock.Family()}, "
            f"not {set_families!r:.100}"
        )
    dropped = [encoded_family(family) for family in listed("drop_families", "names", drop_families)]
    if not set_families and not dropped and durability is None and not properties and not has_mapping:
        raise InvalidArgumentError(
            "no alteration is given: pass families to set, families to drop, a durability, properties or a mapping"
        )
    return catalog_pb2.AlterTableRequest(
        name=name,
        set_families=[family_message(family, settings) for family, settings in (set_families or {}).items()],
        drop_families=dropped,
        durability=durability_message(durability),
        set_properties=property_texts(changed),
        drop_properties=[_property_name(name) for name, value in (properties or {}).items() if value is None],
    )
