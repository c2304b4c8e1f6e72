"""The rules of a mapping that a table keeps: which mappings agree with it, and to which ones it may change. No I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from rowlock._codec.widening import Former, has_same_bytes, may_follow
from rowlock.errors import MappingError
from rowlock.mapping import MappedColumn, Mapping, mapping_of, parsed_kept


def agreed(given: Mapping, kept_text: str, table: str) -> Mapping:
    """Returns a caller's mapping, with what the kept one says about its columns' former types.

    kept_text: empty: the table keeps none. Raises MappingError if the two disagree.
    """
    if not kept_text or kept_text == given.text:
        return given
    kept = parsed_kept(kept_text, table)
    problem = next(_differences(given, kept), None)
    if problem is not None:
        raise MappingError(
            f"the mapping {given.text!r} does not agree with the one that table {table!r} keeps, {kept.text!r}: "
            f"{problem}",
            table=table,
        )
    by_target = {column.column: column for column in kept.values}
    if all(column.formers == by_target[column.column].formers for column in given.values):
        return given
    columns = [
        column if column.is_key else dataclasses.replace(by_target[column.column], name=column.name)
        for column in given.columns
    ]
    return mapping_of(columns, given.timestamp, given.separator)


def altered(kept: Mapping, new: Mapping, dropped_families: Collection[bytes]) -> Mapping:
    """Returns the new mapping with the former types of its columns.

    Raises MappingError unless every cell of the kept mapping's columns can still be read.
    """
    problem = next(_breaks(kept, new, dropped_families), None)
    if problem is not None:
        raise MappingError(
            f"the mapping can't be changed to {new.text!r}: {problem}. The kept mapping is {kept.text!r}; "
            "replace_mapping (--replace-mapping) skips this check, and cells that can't be read are then errors"
        )
    by_target = {column.column: column for column in kept.values if column.family not in dropped_families}
    columns = [
        column if column.is_key or column.column not in by_target else _widened(by_target[column.column], column)
        for column in new.columns
    ]
    return mapping_of(columns, new.timestamp, new.separator)


def without_families(kept: Mapping, families: Collection[bytes]) -> Mapping:
    """Returns the mapping without the columns of these families."""
    columns = [column for column in kept.columns if column.is_key or column.family not in families]
    return kept if len(columns) == len(kept.columns) else mapping_of(columns, kept.timestamp, kept.separator)


def _differences(given: Mapping, kept: Mapping) -> Iterator[str]:
    """Yields why a mapping may not be used for a table with the kept one."""
    if len(given.keys) != len(kept.keys):
        yield f"the key has {_parts(kept)}, and not {_parts(given)}"
        return
    for own, part in zip(given.keys, kept.keys, strict=True):
        is_last = part is kept.keys[-1]
        if (own.type_text, _form(own, is_last)) != (part.type_text, _form(part, is_last)):
            yield f"the part {part.name!r} of the key is {_type(part)}, and not {_type(own)}"
    if given.separator != kept.separator and _has_separator(kept):
        yield f"the key's separator is {kept.separator.decode()!r}, and not {given.separator.decode()!r}"
    by_target = {column.column: column for column in kept.values}
    for own in given.values:
        column = by_target.get(own.column)
        if column is None:
            yield f"it has no column {own.column.decode(errors='backslashreplace')}; alter_table(mapping=...) adds one"
        elif (own.type_text, _form(own, True)) != (column.type_text, _form(column, True)):
            yield (
                f"{own.column.decode(errors='backslashreplace')} is {_type(column)}, and not {_type(own)}"
                + ("; it was widened" if any(former.type == own.type for former in column.formers) else "")
            )


def _breaks(kept: Mapping, new: Mapping, dropped_families: Collection[bytes]) -> Iterator[str]:
    """Yields why cells or keys could not be read after a change."""
    if len(new.keys) != len(kept.keys):
        yield f"the key has {_parts(kept)}, and rows would be lost with {_parts(new)}"
        return
    for old, part in zip(kept.keys, new.keys, strict=True):
        is_last = old is kept.keys[-1]
        has_form = _form(old, is_last) == _form(part, is_last)
        if not has_form or not may_follow(old.arrow, part.arrow, old.encoding, is_key=True):
            yield f"the part {old.name!r} of the key is {_type(old)}, and keys can't become {_type(part)}"
    if new.separator != kept.separator and _has_separator(kept):
        yield f"the key's separator is {kept.separator.decode()!r}, and can't become {new.separator.decode()!r}"
    by_target = {column.column: column for column in new.values}
    for column in kept.values:
        if column.family in dropped_families:
            continue
        target = column.column.decode(errors="backslashreplace")
        found = by_target.get(column.column)
        if found is None:
            yield (
                f"it lacks {target}, whose cells stay and could come back with another type; a column leaves with its "
                "family"
            )
        elif _form(found, True) != _form(column, True) or not may_follow(
            column.arrow, found.arrow, column.encoding, is_key=False
        ):
            yield f"{target} is {_type(column)}, and its cells can't be read as {_type(found)}"


def _widened(old: MappedColumn, new: MappedColumn) -> MappedColumn:
    """Returns the new column with the former types of the old one, and the old one's type if its bytes differ."""
    formers = list(old.formers)
    if not has_same_bytes(old.arrow, new.arrow, new.encoding):
        # Without the old column's formers, which its codec reads too.
        formers.append(Former(old.type, old.own_codec))
    known = {(former.type, former.codec.arrow) for former in formers}
    formers += [former for former in new.formers if (former.type, former.codec.arrow) not in known]
    return dataclasses.replace(new, formers=tuple(formers))


def _form(column: MappedColumn, is_last: bool) -> str:
    """Returns what, besides the type, determines a value's bytes."""
    return "bytes" if column.is_bytes and (is_last or not column.is_key) else column.encoding


def _type(column: MappedColumn) -> str:
    return f"{column.type_text} {column.encoding}"


def _parts(mapping: Mapping) -> str:
    names = ", ".join(part.name for part in mapping.keys)
    return f"one part, {names}" if len(mapping.keys) == 1 else f"{len(mapping.keys)} parts, ({names})"


def _has_separator(mapping: Mapping) -> bool:
    return any(part.encoding == "text" for part in mapping.keys[:-1])
