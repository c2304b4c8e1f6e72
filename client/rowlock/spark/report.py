"""What rowlock.spark.check found: a Python process of Spark a line, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowlock.spark.probe import NOT_INSTALLED


@dataclass(frozen=True, slots=True)
class Place:
    """One process: the driver, what plans reads beside it, or a worker of an executor.

    folder: which it runs in; executors of one host have folders of their own. versions: by package, "none" where it is
    not installed. server: how the server was reached, or why not; empty if none was to be.
    """

    place: str
    host: str
    folder: str
    python: str
    python_version: str
    versions: Mapping[str, str]
    server: str
    has_reached: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; printed, it is a table. problems: sentences, none if all is well."""

    places: tuple[Place, ...]
    problems: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        heads = ["place", "host", "Python", *_SHOWN, "server", "executable"]
        lines = [heads, *(_line(place) for place in self.places)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
        table = [
            "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*table, "", *(self.problems or ["all is well"])])


_SHOWN = ("rowlock", "pyspark", "pyarrow", "grpcio")


def _line(place: Place) -> list[str]:
    versions = [place.versions.get(name, NOT_INSTALLED) for name in _SHOWN]
    # The whole reason stands among the problems.
    server = "" if not place.server else place.server if place.has_reached else "not reached"
    return [place.place, place.host, place.python_version, *versions, server, place.python]


def place_of(text: str) -> Place:
    """What a process has told, see probe.probed."""
    return Place(**json.loads(text))


def report_of(places: Sequence[Place], problems: Sequence[str] = ()) -> Report:
    """The first of what each executor told, and what is wrong, beside the problems that are known."""
    kept: dict[tuple[str, ...], Place] = {}
    for place in places:
        kept.setdefault((place.place, place.host, place.folder, place.python), place)
    found = [*problems, *(problem for place in kept.values() for problem in _problems(place, places[0]))]
    return Report(tuple(kept.values()), tuple(dict.fromkeys(found)))


def _problems(place: Place, driver: Place) -> Iterator[str]:
    where = f"{place.place} on {place.host} ({place.python})"
    for name, version in place.versions.items():
        if version == NOT_INSTALLED:
            yield f"{where} has no {name}: see 'Clusters' in docs/spark.md for how to bring it there"
    found, wanted = place.versions.get("rowlock"), driver.versions.get("rowlock")
    if found not in (wanted, NOT_INSTALLED):
        yield f"{where} has rowlock {found}, and the driver {wanted}: install the same version"
    if place.server and not place.has_reached and found != NOT_INSTALLED:
        yield f"{where}: the server was {place.server}"
