"""The CSV files that Spark reads: those of the package, with all or some of the flights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.demo.flights import even_numbers, flights_csv, packaged


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """The paths of the files. All have a header, and NA for missing values."""

    flights: Path
    planes: Path
    weather: Path


def unpacked(folder: Path, flight_count: int | None) -> CsvFiles:
    """Writes the files, with the flights that flights.evenly() picks. Raises SourceMissingError."""
    path = folder / "flights.csv"
    path.write_bytes(_some_lines(flights_csv(), flight_count))
    return CsvFiles(path, packaged("planes.csv"), packaged("weather.csv"))


def _some_lines(data: bytes, count: int | None) -> bytes:
    if count is None:
        return data
    header, *lines = data.splitlines(keepends=True)
    return b"".join([header, *(lines[number] for number in even_numbers(len(lines), count))])
