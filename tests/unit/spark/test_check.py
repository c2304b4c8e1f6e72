"""The report of a check from the descriptions of processes, without a session."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rowlock.spark import checking, configuration
from rowlock.spark.configuration import NoPythonError, configure
from rowlock.spark.probe import NOT_INSTALLED, PACKAGES, describe_process
from rowlock.spark.report import Place, place_of, report_of

_DRIVER = Place(
    place="driver",
    host="a",
    folder="/home",
    python="/usr/bin/python3",
    python_version="3.12.1",
    versions={"rowlock": "0.2.0", "pyspark": "4.3.0"},
    server="rowlock 0.2.0, 3 ms",
    has_reached=True,
)


def test_a_process_is_described() -> None:
    place = place_of(describe_process("executor", None, 1.0))
    assert (place.place, place.python, place.server, place.has_reached) == ("executor", sys.executable, "", False)
    assert set(place.versions) == set(PACKAGES)
    assert NOT_INSTALLED not in place.versions.values()
    away = place_of(describe_process("driver", "127.0.0.1:1", 0.5))
    assert not away.has_reached
    assert away.server.startswith("not reached: ServerUnavailableError: no rowlock server answers at 127.0.0.1:1")


def test_an_executor_that_is_described_twice_is_reported_once() -> None:
    executor = replace(_DRIVER, place="executor", folder="/app/0")
    other = replace(executor, folder="/app/1")
    report = report_of([_DRIVER, executor, other, executor])
    assert report.places == (_DRIVER, executor, other)
    assert report.is_well


def test_each_problem_of_a_process_is_one_sentence() -> None:
    executor = replace(_DRIVER, place="executor", host="b")
    where = "executor on b (/usr/bin/python3)"
    for wrong, message in (
        ({"versions": {"rowlock": NOT_INSTALLED}}, f"{where} has no rowlock: see 'Clusters' in docs/spark.md"),
        ({"versions": {"rowlock": "0.1.0"}}, f"{where} has rowlock 0.1.0, but the driver has 0.2.0"),
        ({"has_reached": False, "server": "not reached: refused"}, f"{where}: server not reached: refused"),
    ):
        [problem] = report_of([_DRIVER, replace(executor, **wrong)]).problems
        assert problem.startswith(message)


def _session(*places: Place, fails: Exception | None = None) -> Any:  # Any: what a session is asked for by a check
    """A session of two slots that reads what processes have told, or fails."""
    session = Mock()
    session.range.return_value.selectExpr.return_value.distinct.return_value.count.return_value = 2
    session.range.return_value.mapInArrow.side_effect = fails
    load = session.read.format.return_value.option.return_value.load
    load.side_effect = fails
    load.return_value.collect.return_value = [{"place": json.dumps(asdict(place))} for place in places]
    return session


def test_the_line_with_the_error_is_extracted_from_spark_s_message() -> None:
    of_java = 'An error occurred while calling o52.load.\n: java.io.IOException: Cannot run program "x"\n\tat a.b(c)'
    of_java += "\nCaused by: java.io.IOException: error=2, No such file"
    of_python = '[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File "x", line 1, in y\n'
    of_python += "KeyError: 1\nTraceback (most recent call last):\n  File x\n"
    of_python += "ModuleNotFoundError: No module named 'rowlock'\n SQLSTATE: 38000"
    for text, told in (
        (of_java, 'java.io.IOException: Cannot run program "x"'),
        (of_python, "ModuleNotFoundError: No module named 'rowlock'"),
        ("something else\nand more", "something else"),
        ("", "RuntimeError"),
    ):
        report = checking.check(_session(fails=RuntimeError(text)))
        assert report.problems == (f'a read by format("rowlock") fails: {told}',)


def test_a_python_that_only_the_driver_has_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = replace(place_of(describe_process("executor", None, 1.0)), python=str(shutil.which(sys.executable)))
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    for workers, is_problem in (("./environment/bin/python", True), (sys.executable, False), ("", False)):
        monkeypatch.setenv("PYSPARK_PYTHON", workers)
        assert checking.check(_session(executor)).is_well is not is_problem
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert checking.check(_session(replace(executor, python="/app/0/environment/bin/python"))).is_well
    [problem] = checking.check(_session(executor)).problems
    assert "Call rowlock.spark.configure(spark)" in problem


class _Session:
    """The part of a session that configure() uses."""

    version = "4.3.0"

    def __init__(self, python: str) -> None:
        self.registered: list[Any] = []
        self._sc = SimpleNamespace(pythonExec=python)
        self.dataSource = SimpleNamespace(register=self.registered.append)

    def createDataFrame(self, rows: list[Any], schema: str) -> None:  # noqa: N802
        assert rows == []


def test_a_session_whose_python_is_missing_on_the_driver_s_machine_is_not_configured() -> None:
    session: Any = _Session("./environment/bin/python")
    with pytest.raises(
        NoPythonError, match=r"PYSPARK_PYTHON is \./environment/bin/python.*unpack it beside the driver"
    ):
        configure(session)
    assert session.registered == []
    here: Any = _Session(sys.executable)
    configuration.configure(here)
    assert len(here.registered) == 1


def test_the_request_of_a_check_is_an_option() -> None:
    session = _session()
    checking.check(session, "127.0.0.1:1", timeout=0.1)
    session.read.format.assert_called_with("rowlock")
    name, asked = session.read.format.return_value.option.call_args.args
    assert name == checking.OPTION
    assert json.loads(asked) == {"server": "127.0.0.1:1", "task_count": 4, "timeout_s": 0.1}
    reader = checking.CheckReader(asked)
    first, *others = reader.partitions()
    assert len(others) == 3
    for partition, told in ((first, ["executor", "planning"]), (others[0], ["executor"])):
        [batch] = reader.read(partition)
        places = [place_of(str(text)) for text in batch.column("place").to_pylist()]
        assert [place.place for place in places] == told
        assert all(" at 127.0.0.1:1" in place.server for place in places), places
