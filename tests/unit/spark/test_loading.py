"""The name in plans of a table that rowlock.spark.load reads. Spark itself is in tests/spark/test_explain.py."""

from __future__ import annotations

from rowlock.spark.loading import NAME_CHARACTERS_MAX, plan_name


def test_a_plan_shows_the_table_and_only_the_options_that_select_rows() -> None:
    options = {"server": "user:secret@db:7460", "mapping": "id STRING :key", "snapshot": "00ff" * 8, "token": "secret"}
    assert plan_name("flights", options) == "rowlock flights"
    options |= {"Filter": "delay  >\n15", "start": "UA", "rows": "mapped"}
    assert plan_name("flights", options) == "rowlock flights, start UA, filter delay > 15, rows mapped"


def test_the_name_is_of_bounded_length() -> None:
    name = plan_name("flights", {"prefix": "U", "filter": "id IN (" + "'x', " * 1000 + "'y')"})
    assert len(name) == NAME_CHARACTERS_MAX
    assert name.startswith("rowlock flights, prefix U, filter id IN ('x', 'x', ")
    assert name.endswith("…")
