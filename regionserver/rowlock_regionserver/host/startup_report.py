"""The startup report for the operator: regions that are damaged and closed, and files that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.errors import CorruptionError, RegionServerError
from rowlock_regionserver.host.set_aside import SET_ASIDE, SetAside

# The number of names; for more there is a count.
_NAMED_MAX = 5


def startup_report(
    folder: Path, state: CatalogState, damaged: Mapping[int, RegionServerError], set_aside: Sequence[SetAside]
) -> str:
    """Returns the end of the line that reports the server as ready; empty when all is well."""
    names = {region.region_id: entry.table.name for entry in state.tables for region in entry.regions}
    parts = []
    if damaged:
        regions = [
            f"region {number} of table {names[number]!r} ({_file(damaged[number])})" for number in sorted(damaged)
        ]
        parts.append(f"damaged and closed: {_some(regions)}")
    if set_aside:
        parts.append(f"set aside in {folder / SET_ASIDE}: {_some([aside.path.name for aside in set_aside])}")
    if parts:
        parts.append(f"'rowlock-server verify {folder}' says more when the server is stopped")
    return "".join(f"; {part}" for part in parts)


def _file(error: RegionServerError) -> str:
    return str(error.path) if isinstance(error, CorruptionError) else str(error)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
