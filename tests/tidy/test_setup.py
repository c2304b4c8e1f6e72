"""Which Python the set-up chooses, by programs that stand for builds of it."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

_SETUP = Path(__file__).resolve().parents[2] / ".ci" / "setup.py"
_OWN = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_OTHER = "python3.12" if _OWN != "python3.12" else "python3.13"


@pytest.fixture
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_of_the_project", _SETUP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Machine:
    """The Pythons of a machine: `python3`, which runs the set-up, and those of two folders of the PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setenv("PATH", f"{folder / 'first'}:{folder / 'second'}")
        monkeypatch.setattr(sys, "executable", str(folder / "python3"))

    def add(self, name: str, exit_code: int) -> str:
        """Adds a Python that answers the question for its build with this exit code. Returns its path."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("packages", [(), ("ensurepip",)])
def test_a_python_is_asked_whether_it_can_make_an_environment(setup: ModuleType, packages: tuple[str, ...]) -> None:
    hidden = "".join(f"import sys; sys.modules[{name!r}] = None\n" for name in packages)
    answer = subprocess.run([sys.executable, "-I", "-c", hidden + setup.ASK_FOR_BUILD], check=False).returncode
    assert answer == setup.WITHOUT_ENSUREPIP if packages else answer in (setup.OPTIMIZED, setup.UNOPTIMIZED)


def test_a_program_that_fails_is_not_a_python_without_ensurepip(setup: ModuleType, machine: Machine) -> None:
    python3 = machine.add("python3", 127)
    with pytest.raises(SystemExit, match=f"{python3} ends with exit code 127"):
        setup.fitting_python()


def test_python3_is_chosen_if_it_is_optimized(setup: ModuleType, machine: Machine) -> None:
    python3 = machine.add("python3", setup.OPTIMIZED)
    machine.add(f"first/{_OTHER}", setup.OPTIMIZED)
    assert setup.fitting_python() == python3


def test_an_optimized_python_of_the_path_is_chosen_before_an_unoptimized_python3(
    setup: ModuleType, machine: Machine
) -> None:
    machine.add("python3", setup.UNOPTIMIZED)
    machine.add(f"first/{_OWN}", setup.UNOPTIMIZED)
    optimized = machine.add(f"second/{_OWN}", setup.OPTIMIZED)
    machine.add(f"first/{_OTHER}", setup.OPTIMIZED)
    assert setup.fitting_python() == optimized, "one of the same version comes first"


def test_an_unoptimized_python3_is_chosen_if_no_other_can_make_an_environment(
    setup: ModuleType, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python3 = machine.add("python3", setup.UNOPTIMIZED)
    machine.add(f"first/{_OTHER}", setup.WITHOUT_ENSUREPIP)
    (tmp_path / "second" / _OTHER).mkdir(parents=True)
    assert setup.fitting_python() == python3
    assert "not an optimized build" in capsys.readouterr().out


def test_without_ensurepip_it_says_what_to_install(setup: ModuleType, machine: Machine) -> None:
    python3 = machine.add("python3", setup.WITHOUT_ENSUREPIP)
    with pytest.raises(SystemExit, match=f"{python3} has no ensurepip; install it"):
        setup.fitting_python()
