"""HBase is found by an option or fetched by Maven, and an absent one is an error that says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import client_packages
from bench.client_packages import SetupError, folder_of
from bench.hbase import installation, run, service
from bench.hbase.installation import Installation, find_installation
from bench.hbase.service import configuration, running_hbase
from bench.programs import ProgramFailedError


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is found as java, and does nothing."""
    path = tmp_path / "bin" / "java"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho cannot start >&2\nexit 3\n")
    path.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{path.parent}")
    return path


def test_a_release_is_used_with_all_of_its_jars(tmp_path: Path, java: Path) -> None:
    thirdparty = "lib/client-facing-thirdparty/log4j.jar"
    for jar in ("lib/hbase-thrift-2.6.1.jar", "lib/hbase-server-2.6.4.jar", thirdparty, "lib/trace/agent.jar"):
        (tmp_path / jar).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / jar).touch()
    found = find_installation(str(tmp_path))
    assert found.java == str(java)
    assert found.version == "2.6.4"
    folders = [tmp_path / "lib", tmp_path / "lib" / "client-facing-thirdparty"]
    assert found.class_path == os.pathsep.join(f"{folder}/*" for folder in folders)


def test_a_folder_without_the_gateway_is_refused(tmp_path: Path, java: Path) -> None:
    with pytest.raises(SetupError, match=r"no HBase with a Thrift gateway in .*HBASE_HOME, or --hbase-home"):
        find_installation(str(tmp_path))


def test_without_java_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="HBase needs Java 17"):
        find_installation(None)


def test_without_hbase_and_maven_the_error_names_every_way(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_FETCHED", tmp_path / "nothing")
    with pytest.raises(SetupError, match=r"HBASE_HOME.*--hbase-gateway HOST:PORT.*Maven"):
        find_installation(None)


def test_an_unfinished_fetch_is_not_taken_for_a_finished_one(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_FETCHED", tmp_path / "hbase")
    maven = java.with_name("mvn")
    # Makes the folder, as Maven does, and fails at the first call.
    maven.write_text('#!/bin/sh\nfor word; do case $word in -Djars=*) /bin/mkdir -p "${word#-Djars=}";; esac; done\n')
    maven.write_text(maven.read_text() + f"test -e {tmp_path}/again && exit 0\n: > {tmp_path}/again\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(SetupError, match="Maven could not fetch HBase's jars"):
        find_installation(None)
    found = find_installation(None)
    assert Path(found.class_path).parent.is_dir()
    assert found.version == "unknown"
    maven.unlink()
    assert find_installation(None) == found


def test_the_command_exits_with_the_error_and_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_packages, "installed_clients", lambda: tmp_path)
    monkeypatch.delenv("HBASE_HOME", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run.main([]) == 2
    assert "HBase needs Java 17" in capsys.readouterr().out


def test_a_java_that_ends_at_once_is_an_error_with_its_log(tmp_path: Path, java: Path) -> None:
    folder = tmp_path / "hbase"
    folder.mkdir()
    with (
        pytest.raises(ProgramFailedError, match=r"java ended; the end of its log:\n.*cannot start"),
        running_hbase(folder, Installation(str(java), "nothing")),
    ):
        pytest.fail("it did not start")


def test_the_configuration_has_the_folder_and_no_word_left(tmp_path: Path) -> None:
    template = Path(service.__file__).with_name("hbase-site.xml").read_text()
    ports = {"ZOOKEEPER_PORT": 11, "MASTER_PORT": 12, "REGION_PORT": 13, "THRIFT_PORT": 14}
    text = configuration(template, tmp_path, ports)
    assert f"file://{tmp_path}/hbase" in text
    assert all(f"<value>{port}</value>" in text for port in ports.values())
    assert "@" not in text.replace("words between @", "")


def test_each_lock_file_and_python_has_a_folder_of_its_own() -> None:
    assert len({folder_of(b"a", "3.11.7"), folder_of(b"b", "3.11.7"), folder_of(b"a", "3.12.1")}) == 3
    assert folder_of(b"a", "3.11.7") == folder_of(b"a", "3.11.7")


def test_the_version_of_a_client_is_that_of_the_lock_file() -> None:
    assert client_packages.version_of("happybase")[0].isdigit()
    with pytest.raises(SetupError, match="has no cassandra"):
        client_packages.version_of("cassandra")
