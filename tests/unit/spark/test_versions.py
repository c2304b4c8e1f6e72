from __future__ import annotations

import subprocess
import sys

import pyspark_rowlock
import pytest
from rowlock.spark.versions import PySparkTooOldError, check_pyspark


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.1", "4.2.0.dev1", "5.0.0"])
def test_supported_versions_pass(version: str) -> None:
    check_pyspark(version)
    check_pyspark()


@pytest.mark.parametrize("version", ["3.5.4", "4.0.0", "4.1.2"])
def test_the_error_for_an_older_one_names_the_supported_versions(version: str) -> None:
    with pytest.raises(PySparkTooOldError, match=rf"PySpark 4\.2 or a later.*is PySpark {version}.*rowlock\[spark\]"):
        check_pyspark(version)


def test_an_old_pyspark_is_refused_when_the_format_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.0")
    assert pyspark_rowlock.DefaultSource.name() == "rowlock"
    with pytest.raises(PySparkTooOldError):
        pyspark_rowlock.DefaultSource({"table": "t"})


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_looking_it_up_fails_nowhere(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; import pyspark_rowlock; "
        "assert not any(name.split('.')[0] in ('rowlock', 'grpc') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
