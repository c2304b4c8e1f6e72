"""The report of rowlock.spark.check: one line for each Python process of Spark, and the problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowlock.spark.probe import NOT_INSTALLED


@dataclass(frozen=True, slots=True)
class Place:
    """One process: the driver, the process beside it that plans reads, or a worker of an executor.

    folder: its working directory, which differs between executors on one host. versions: by package, "none" for a
    package that is not installed. server: the server's version and latency, or the error; empty without a server.
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
    """The result of a check. str() formats it as a table. problems: one sentence each."""

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
        return "\n".join([*table, "", *(self.problems or ["no problems found"])])


_SHOWN = ("rowlock", "pyspark", "pyarrow", "grpcio")


def _line(place: Place) -> list[str]:
    versions = [place.versions.get(name, NOT_INSTALLED) for name in _SHOWN]
    # The problems contain the complete error.
    server = "" if not place.server else place.server if place.has_reached else "not reached"
    return [place.place, place.host, place.python_version, *versions, server, place.python]


def place_of(text: str) -> Place:
    """Parses the description of a process, see probe.describe_process."""
    return Place(**json.loads(text))


def report_of(places: Sequence[Place], problems: Sequence[str] = ()) -> Report:
    """Returns a report without duplicate places, with the given problems and those of the places."""
    unique: dict[tuple[str, ...], Place] = {}
    for place in places:
        unique.setdefault((place.place, place.host, place.folder, place.python), place)
    found = [*problems, *(problem for place in unique.values() for problem in _problems(place, places[0]))]
    return Report(tuple(unique.values()), tuple(dict.fromkeys(found)))


def _problems(place: Place, driver: Place) -> Iterator[str]:
    where = f"{place.place} on {place.host} ({place.python})"
    for name, version in place.versions.items():
        if version == NOT_INSTALLED:
            yield f"{where} has no {name}: see 'Clusters' in docs/spark.md for how to install it"
    found, wanted = place.versions.get("rowlock"), driver.versions.get("rowlock")
    if found not in (wanted, NOT_INSTALLED):
        yield f"{where} has rowlock {found}, but the driver has {wanted}: install the same version"
    if place.server and not place.has_reached and found != NOT_INSTALLED:
        yield f"{where}: server {place.server}"
