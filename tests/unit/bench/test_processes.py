"""Servers as processes: ready, killed, stopped, and what is said of those that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.processes import ServerFailedError, ServerProcess

_SERVES = "import signal; print('listening on 127.0.0.1:1234', flush=True); signal.pause()"
_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + _SERVES


def _command(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_server_is_ready_when_it_has_said_its_address(tmp_path: Path) -> None:
    with ServerProcess(_command(_SERVES), tmp_path / "log") as server:
        assert server.address == "127.0.0.1:1234"
        assert 0 < server.ready_seconds < 60
        assert 0 <= server.ready_cpu_seconds < 60
        assert psutil.pid_exists(server.pid)
        assert 0 < server.peak_resident_mib() < 1000
    assert not psutil.pid_exists(server.pid)


def test_a_server_has_a_session_of_its_own(tmp_path: Path) -> None:
    with ServerProcess(_command(_SERVES), tmp_path / "log") as server:
        assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_a_killed_server_does_not_hear_of_it(tmp_path: Path) -> None:
    with ServerProcess(_command(_DEAF), tmp_path / "log") as server:
        server.kill()
        assert not psutil.pid_exists(server.pid)


def test_a_server_that_stops_in_order_is_waited_for(tmp_path: Path) -> None:
    farewell = "signal.signal(signal.SIGTERM, lambda *_: (open({path!r}, 'w').close(), exit(0)))"
    said = tmp_path / "farewell"
    code = "import signal; " + farewell.format(path=str(said)) + "; " + _SERVES
    with ServerProcess(_command(code), tmp_path / "log") as server:
        server.stop()
        assert said.exists()


def test_a_server_that_does_not_stop_is_killed_and_told_of(tmp_path: Path) -> None:
    with ServerProcess(_command(_DEAF), tmp_path / "log") as server:
        with pytest.raises(ServerFailedError, match="did not stop"):
            server.stop(seconds_max=0.1)
        assert not psutil.pid_exists(server.pid)


def test_the_end_of_the_log_of_a_server_that_ended_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match=r"ended before it was ready\nno room"):
        ServerProcess(_command("import sys; sys.exit('no room')"), tmp_path / "log")


def test_a_server_that_says_nothing_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, signal; open({str(pid)!r}, 'w').write(str(os.getpid())); signal.pause()"
    with pytest.raises(ServerFailedError, match="printed no address in time"):
        ServerProcess(_command(code), tmp_path / "log", ready_seconds_max=1.0)
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_first_line_without_an_address_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match="has no address"):
        ServerProcess(_command("print('hello', flush=True); import signal; signal.pause()"), tmp_path / "log")


def test_a_server_is_ended_when_the_block_raises(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), ServerProcess(_command(_SERVES), tmp_path / "log") as server:
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, signal.SIGTERM)


def test_a_program_that_is_told_to_end_takes_its_server_with_it(tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, sys\n"
        "from bench.processes import ServerProcess, exit_on_sigterm\n"
        "exit_on_sigterm()\n"
        f"with ServerProcess([sys.executable, '-c', {_SERVES!r}], pathlib.Path({str(tmp_path / 'log')!r})) as server:\n"
        "    print(f'{server.pid} serves at 127.0.0.1:1', flush=True)\n"
        "    signal.pause()\n"
    )
    with subprocess.Popen(_command(code), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server_pid = int(program.stdout.readline().split()[0])
        program.terminate()
        assert program.wait(180) == 128 + signal.SIGTERM
    assert not psutil.pid_exists(server_pid)
