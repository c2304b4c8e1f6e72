"""The mapping in requests that create and alter tables. The server keeps it as the table's property `mapping`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rowlock_proto.v1 import catalog_pb2, types_pb2

from rowlock._core.kept_mapping import altered, without_families
from rowlock.errors import FamilyNotFoundError, MappingError, TableNotFoundError
from rowlock.mapping import Mapping, as_mapping, is_none, parsed_kept
from rowlock.schema import MAPPING_PROPERTY, Family


def families_of(mapping: Mapping) -> dict[str, Family]:
    """Returns the mapping's families with default settings. Raises MappingError if it has only a key."""
    families = {column.family.decode(): Family() for column in mapping.values}
    if not families:
        raise MappingError(f"{mapping!r} has only a key; name the table's families")
    return families


def set_mapping(request: catalog_pb2.CreateTableRequest, mapping: Mapping) -> None:
    """Sets the mapping that a new table keeps. Raises FamilyNotFoundError if it names a family that the table lacks."""
    _check_families(mapping, {family.name for family in request.table.families}, request.table.name)
    request.table.properties[MAPPING_PROPERTY] = mapping.text


def set_altered_mapping(
    request: catalog_pb2.AlterTableRequest,
    tables: Iterable[types_pb2.TableDescriptor],
    mapping: Mapping | str | None,
    *,
    replaces: bool,
) -> None:
    """Sets the mapping that a table keeps after the request: the given one, or its own without the dropped families.

    tables: as they are now. mapping: "none" drops it. replaces: whether any mapping may replace it. The server refuses
    the request if the mapping has changed meanwhile. Raises MappingError, FamilyNotFoundError and TableNotFoundError.
    """
    table = next((table for table in tables if table.name == request.name), None)
    if table is None:
        raise TableNotFoundError(
            f"there is no table {request.name!r}; create it, or list the tables", table=request.name
        )
    kept_text = table.properties.get(MAPPING_PROPERTY, "")
    dropped = set(request.drop_families)
    if mapping is None:
        if not kept_text:
            return
        new = without_families(parsed_kept(kept_text, request.name), dropped)
        if new.text == kept_text:
            return
    elif is_none(mapping):
        if kept_text:
            request.drop_properties.append(MAPPING_PROPERTY)
            request.expected_properties[MAPPING_PROPERTY] = kept_text
        return
    else:
        new = as_mapping(mapping)
        if kept_text and not replaces:
            new = altered(parsed_kept(kept_text, request.name), new, dropped)
    families = {family.name for family in (*table.families, *request.set_families)} - dropped
    _check_families(new, families, request.name)
    request.set_properties[MAPPING_PROPERTY] = new.text
    request.expected_properties[MAPPING_PROPERTY] = kept_text


def _check_families(mapping: Mapping, families: Collection[bytes], table: str) -> None:
    missing = sorted({column.family for column in mapping.values} - set(families))
    if missing:
        known = ", ".join(family.decode(errors="backslashreplace") for family in sorted(families))
        raise FamilyNotFoundError(
            f"the mapping names the family {missing[0].decode(errors='backslashreplace')!r}, which is not among those "
            f"of table {table!r}: {known or 'none'}",
            table=table,
            family=missing[0],
        )
