"""The settings of compaction: properties of a table become checked values."""

from __future__ import annotations

import re

import pytest
from rowlock_regionserver.compaction.settings import PROPERTY_NAMES, CompactionSettings, parse
from rowlock_regionserver.errors import InvalidRequestError


def test_no_property_leaves_the_defaults() -> None:
    assert parse({}) == CompactionSettings()


def test_properties_set_what_they_name_and_leave_the_rest_of_the_base() -> None:
    base = CompactionSettings(automatic=False, major_deltas=20)
    parsed = parse({"compaction.minor_files_min": "6", "compaction.major_delta_share": "0.25"}, base)
    assert parsed == CompactionSettings(automatic=False, major_deltas=20, minor_files_min=6, major_delta_share=0.25)


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False)])
def test_automatic_compaction_is_switched_by_true_and_false(text: str, expected: bool) -> None:
    assert parse({"compaction.automatic": text}).automatic is expected


def test_each_setting_has_a_property_that_accepts_its_default() -> None:
    settings = CompactionSettings()
    texts = {name: str(getattr(settings, name.removeprefix("compaction."))).lower() for name in PROPERTY_NAMES}
    assert len(texts) == 10
    assert parse(texts) == settings


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("compaction.automatic", "yes", "compaction.automatic must be true or false, it is 'yes'"),
        ("compaction.automatic", "True", "must be true or false, it is 'True'"),
        ("compaction.files_max", "1", "compaction.files_max must be from 2 to 10000, it is 1"),
        ("compaction.files_max", "many", "compaction.files_max must be a whole number from 2 to 10000, it is 'many'"),
        ("compaction.files_max", "10.0", "must be a whole number from 2 to 10000, it is '10.0'"),
        ("compaction.files_max", "-3", "it is '-3'"),
        ("compaction.files_max", "٣", "it is '٣'"),
        ("compaction.files_max", "1_000", "it is '1_000'"),
        ("compaction.files_max", "", "it is ''"),
        ("compaction.minor_files_min", "1", "compaction.minor_files_min must be from 2 to 1000, it is 1"),
        ("compaction.minor_size_ratio", "0.9", "compaction.minor_size_ratio must be from 1 to 100, it is 0.9"),
        ("compaction.minor_size_ratio", "nan", "must be a number from 1 to 100, it is 'nan'"),
        ("compaction.minor_size_ratio", "1e1", "it is '1e1'"),
        ("compaction.major_delta_share", "inf", "must be a number from 0 to 1000, it is 'inf'"),
        ("compaction.major_dropped_share", "1.5", "compaction.major_dropped_share must be from 0 to 1, it is 1.5"),
        ("compaction.major_age_ms", "99999999999999999999", "compaction.major_age_ms must be a whole number from 0 to"),
        ("compaction.major_age_ms", "3153600000001", "must be from 0 to 3153600000000, it is 3153600000001"),
        ("compaction.move_bytes_min", "16 MiB", "compaction.move_bytes_min must be a whole number from 0 to"),
    ],
)
def test_a_bad_value_is_refused_with_its_property_and_what_is_allowed(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        parse({name: text})


@pytest.mark.parametrize("name", ["compaction.minor_file_min", "minor_files_min", "compression", "", "compaction."])
def test_an_unknown_property_is_refused_with_the_names_that_there_are(name: str) -> None:
    message = f"no property is called {name!r}; there are compaction.automatic, compaction.minor_files_min, "
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        parse({name: "4"})


def test_settings_that_contradict_each_other_are_refused() -> None:
    message = "compaction.minor_files_min must be at most compaction.files_max, which is 3; it is 4"
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        parse({"compaction.files_max": "3"})
    assert parse({"compaction.files_max": "3", "compaction.minor_files_min": "3"}).files_max == 3


def test_settings_are_checked_however_they_are_made() -> None:
    with pytest.raises(InvalidRequestError, match="major_delta_share must be from 0 to 1000, it is nan"):
        CompactionSettings(major_delta_share=float("nan"))
