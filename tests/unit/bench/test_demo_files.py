"""The demo's CSV files are the package's own, and its picture is a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.demo import csv_files, flights, picture
from bench.demo.__main__ import arguments, introduction, source
from bench.demo.steps.spark_start import rounds_of


def test_some_flights_of_the_csv_file_are_those_that_the_other_steps_have(tmp_path: Path) -> None:
    files = csv_files.unpacked(tmp_path, 300)
    found = flights.sorted_by_key(flights.parse(files.flights.read_bytes()))
    assert found.equals(source(300).drop_columns(["corrected_by"]))


def test_without_a_number_the_flights_are_the_package_s_own_bytes(tmp_path: Path) -> None:
    assert csv_files.unpacked(tmp_path, None).flights.read_bytes() == flights.flights_csv()


def test_planes_and_weather_are_read_where_the_package_has_them(tmp_path: Path) -> None:
    files = csv_files.unpacked(tmp_path, 1)
    assert files.planes.read_text().startswith("tailnum,year,type,manufacturer")
    assert files.weather.read_text().startswith("origin,year,month,day,hour")


def test_a_file_that_the_package_lacks_is_named() -> None:
    with pytest.raises(flights.SourceMissingError, match=r"no file hotels\.csv"):
        flights.packaged("hotels.csv")


def test_each_late_flight_has_one_writer_and_none_came_earlier_than_the_others() -> None:
    given = source(2000)
    rounds = rounds_of(given)
    delays = dict(zip(flights.keys_of(given), given["arr_delay"].to_pylist(), strict=True))
    late = {row for own in rounds for row in own.rows}
    assert sum(len(own.rows) for own in rounds) == len(late) == 40
    assert all(delays[row] == delay for own in rounds for row, delay in zip(own.rows, own.delays, strict=True))
    assert min(delays[row] or 0 for row in late) >= max(delays[row] or 0 for row in delays.keys() - late)


def test_the_picture_is_a_png_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "demo.png"
    rates = {"Spark reads": 50_000.0, "Spark writes": 9_000.0}
    picture.draw(path, "nothing was lost", rates, {5: 1.0, 6: 2.5}, {5: 0.5, 6: 1.0})
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_introduction_says_how_long_it_takes_if_that_is_known() -> None:
    assert "with Spark. It takes 4 to 6 minutes" in introduction(arguments([]))
    assert "every value. It takes 2 to 3 minutes" in introduction(arguments(["--without-spark"]))
    assert "minutes" not in introduction(arguments(["--flights", "1000"]))


def test_too_few_flights_to_correct_are_refused_unless_spark_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--flights", "99"])
    assert "at least 100" in capsys.readouterr().err
    assert arguments(["--flights", "99", "--without-spark"]).flights == 99
