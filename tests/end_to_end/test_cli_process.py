"""The command line as its own process: start-up, pipes, signals, and the shell at a terminal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.end_to_end.terminal import PATIENCE_SECONDS, Terminal
from tests.waiting import wait_until

ROWLOCK = Path(sys.executable).with_name("rowlock")


@pytest.fixture
def environment(rowlock_server: RowlockServer, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "ROWLOCK_SERVER": rowlock_server.address, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def wide(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    """More rows than a pipe holds."""
    table = rowlock_client.create_table("wide", {"f": rowlock.Family()})
    with table.batch() as batch:
        for number in range(3000):
            batch.put(b"r%05d" % number, {b"f:a": b"x" * 200})
    return table


@pytest.fixture
def large(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    """More rows than a batch of a scan holds."""
    table = rowlock_client.create_table("large", {"f": rowlock.Family()})
    with table.batch() as batch:
        for number in range(200):
            batch.put(b"r%05d" % number, {b"f:a": os.urandom(1 << 14).hex().encode()})
    return table


def start(words: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ROWLOCK, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_help_is_shown() -> None:
    # tests/tidy/test_start_up.py checks its imports, which decide how fast it starts.
    ran = subprocess.run([ROWLOCK, "--help"], capture_output=True, text=True)
    assert ran.returncode == 0
    assert "check-and-put" in ran.stdout


def test_commands_on_one_row_import_no_arrow(wide: rowlock.Table[bytes], environment: dict[str, str]) -> None:
    """It takes as long as all the rest."""
    code = (
        "import sys\n"
        "from rowlock.cli.main import main\n"
        "for words in ('put wide r f:a=1', 'get wide r', 'exists wide r', 'increment wide r f:n', 'delete wide r', "
        "'tables', 'describe wide', 'flush wide'):\n"
        "    assert main(words.split()) == 0, words\n"
        "sys.stderr.write(' '.join(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert not {"pyarrow", "numpy", "pandas", "pydantic", "prompt_toolkit"} & set(ran.stderr.split())


TYPED = (
    "id STRING :key, at TIMESTAMP f:at, day DATE f:day, price DECIMAL(9,2) f:price, ratio DOUBLE f:ratio, "
    "half FLOAT f:half, ok BOOLEAN f:ok, n BIGINT f:n, raw BINARY f:raw, later TIMESTAMP f:later millis"
)


def test_typed_commands_import_no_pandas(rowlock_client: rowlock.Client, environment: dict[str, str]) -> None:
    """It takes longer than all the rest, and only its absence is cheap: pandas is installed here."""
    rowlock_client.create_table("typed", mapping=TYPED)
    row = "at=2013-01-31T05:00:00.5Z day=2013-01-31 price=1.5 ratio=0.1 half=0.1 ok=true n=7 raw=x later=2013-01-31"
    code = (
        "import sys\n"
        "from rowlock.cli.main import main\n"
        f"for words in ('put typed a {row}', 'get typed a', 'get typed a --json', 'scan typed', 'scan typed --json', "
        "'scan typed --where price=1.5 --where ratio>0 --where at>2013-01-01', 'count typed', "
        "'get typed a at --versions 2', 'check-and-put typed a price --expected 1.5 ratio=2.5', "
        "'export typed - --format csv', 'increment typed a n', 'delete typed a'):\n"
        "    assert main(words.split()) == 0, words\n"
        "sys.stderr.write(' '.join(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "2013-01-31T05:00:00.500000" in ran.stdout
    assert "pandas" not in ran.stderr.split()
    assert "pyarrow" in ran.stderr.split()


def test_exit_codes_reach_the_caller(wide: rowlock.Table[bytes], environment: dict[str, str]) -> None:
    for words, exit_code in [
        (["get", "wide", "r00000"], 0),
        (["check-and-put", "wide", "r00000", "f:a", "f:a=1", "--absent"], 1),
        (["get", "nosuch", "r"], 2),
    ]:
        ran = subprocess.run([ROWLOCK, *words], env=environment, capture_output=True, text=True)
        assert ran.returncode == exit_code
        assert "Traceback" not in ran.stderr


def test_a_reader_that_goes_away_ends_a_scan_silently(wide: rowlock.Table[bytes], environment: dict[str, str]) -> None:
    with start(["scan", "wide", "--all"], environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("r00000\t")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_an_interrupt_ends_a_scan_in_one_line(wide: rowlock.Table[bytes], environment: dict[str, str]) -> None:
    with start(["scan", "wide", "--all"], environment) as process:
        assert process.stdout is not None
        # The test stops reading, so the command blocks on the pipe when the signal comes.
        assert process.stdout.readline().startswith("r00000\t")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (130, "interrupted\n")


@pytest.mark.parametrize(("module", "words"), [("typer", ["--help"]), ("grpc", ["tables"])])
def test_an_interrupt_while_modules_are_imported_is_one_line(
    environment: dict[str, str], tmp_path: Path, module: str, words: Sequence[str]
) -> None:
    # Replaces a module, and like some modules converts any exception during its import into an ImportError.
    (tmp_path / f"{module}.py").write_text(
        "import threading\n"
        "print('importing', flush=True)\n"
        "try:\n    threading.Event().wait()\n"
        "except BaseException as error:\n    raise ImportError from error\n"
    )
    with start(words, {**environment, "PYTHONPATH": str(tmp_path)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_an_interrupt_while_waiting_for_a_server_is_one_line(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        with start(["tables", "--server", f"127.0.0.1:{silent.getsockname()[1]}"], environment) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_an_interrupt_after_the_command_is_done_changes_nothing() -> None:
    code = (
        "import os, signal, sys\n"
        "from rowlock.cli.start import main\n"
        "end = os._exit\n"
        "def interrupted(code):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    end(code)\n"
        "os._exit = interrupted\n"
        "sys.argv = ['rowlock', '--version']\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("rowlock ")


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        (["scan", "wide", "--all"], ""),
        (["scan", "wide", "--all"], "1"),
        (["get", "wide", "r00000", "--json"], ""),
        (["get", "wide", "r00000", "--json"], "1"),
        (["--help"], ""),
        (["--help"], "1"),
        (["scan", "--help"], "1"),
        (["--version"], "1"),
    ],
)
def test_output_that_can_not_be_written_is_one_line(
    wide: rowlock.Table[bytes], environment: dict[str, str], words: Sequence[str], unbuffered: str
) -> None:
    environment["PYTHONUNBUFFERED"] = unbuffered
    with open("/dev/full", "w") as full:
        ran = subprocess.run([ROWLOCK, *words], env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert "can't write to standard output: No space left on device; " in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_an_error_that_can_not_be_printed_keeps_its_exit_code(environment: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run([ROWLOCK, "get", "nosuch", "r"], env=environment, stdout=subprocess.PIPE, stderr=full)
    assert (ran.returncode, ran.stdout) == (2, b"")


@pytest.mark.parametrize(("closed", "shown"), [("<&-", True), (">&-", False), ("2>&-", True)])
def test_a_standard_stream_may_be_closed(
    wide: rowlock.Table[bytes], environment: dict[str, str], closed: str, shown: bool
) -> None:
    command = ["sh", "-c", f'exec "$0" "$@" {closed}', str(ROWLOCK), "get", "wide", "r00000"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("r00000\t") is shown


# Waits in the middle of an export, when a part of the rows is written.
_WAITING_EXPORT = """
import sys, threading
from rowlock.cli.transfer import csv_files
write = csv_files._with_escapes
def write_and_wait(batch, schema):
    csv_files._with_escapes = wait
    return write(batch, schema)
def wait(batch, schema):
    print('writing', flush=True)
    threading.Event().wait()
csv_files._with_escapes = write_and_wait
from rowlock.cli.start import main
sys.argv = ['rowlock', *sys.argv[1:]]
main()
"""
WIDE = "id STRING :key, a STRING f:a"


def ended(process: subprocess.Popen[str], number: signal.Signals) -> int:
    """Sends the signal until the process ends, and returns its exit code.

    Once is not always enough: Python sees a signal that comes just before it waits for input only after the input.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        process.send_signal(number)
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < deadline, "the signal does not end it"


def stopped(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Sends the signal until the process ends; returns its error output.

    Once is not always enough: Python only prints an interruption that comes while it runs a finalizer.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        process.send_signal(number)
        try:
            return process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            assert time.monotonic() < deadline, "the signal does not end it"


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
    ],
)
@pytest.mark.parametrize("before", [None, "old"])
def test_a_stopped_export_leaves_no_file_and_replaces_none(
    large: rowlock.Table[bytes],
    environment: dict[str, str],
    tmp_path: Path,
    number: signal.Signals,
    exit_code: int,
    before: str | None,
) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    file = folder / "rows.csv"
    if before is not None:
        file.write_text(before)
    words = ["export", "large", str(file), "-m", WIDE, "--overwrite"]
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING_EXPORT, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            assert len(list(folder.iterdir())) == (1 if before is None else 2)
            err = stopped(process, number)
        finally:
            process.kill()  # Else a failure would wait for its end.
    assert process.returncode == exit_code
    assert err.endswith("interrupted\n") if number == signal.SIGINT else err == ""
    assert [path.name for path in folder.iterdir()] == ([] if before is None else ["rows.csv"])
    assert before is None or file.read_text() == before


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
def test_an_export_that_does_not_fit_the_disk_leaves_no_file(
    wide: rowlock.Table[bytes], environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "from rowlock.cli.start import main\n"
        "sys.argv = ['rowlock', *sys.argv[1:]]\n"
        "main()\n"
    )
    folder = tmp_path / "exports"
    folder.mkdir()
    words = ["export", "wide", str(folder / name), "-m", WIDE]
    ran = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"rowlock: can't write {folder / name}: File too large; nothing was left of it, write it elsewhere\n"
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "jsonl", "csv.gz", "parquet"])
def test_a_broken_pipe_ends_an_export_silently(
    large: rowlock.Table[bytes], environment: dict[str, str], kind: str
) -> None:
    with start(["export", "large", "-", "--format", kind, "-m", WIDE], environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_an_export_to_a_full_standard_output_is_one_line(
    wide: rowlock.Table[bytes], environment: dict[str, str]
) -> None:
    words = ["export", "wide", "-", "--format", "csv", "-m", WIDE]
    with open("/dev/full", "w") as full:
        ran = subprocess.run([ROWLOCK, *words], env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("rowlock: can't write to standard output: No space left on device; ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_stopped_import_of_standard_input_leaves_no_copy_of_it(
    wide: rowlock.Table[bytes],
    environment: dict[str, str],
    tmp_path: Path,
    number: signal.Signals,
    exit_code: int,
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    words = [str(ROWLOCK), "import", "wide", "-", "--format", "csv", "-m", WIDE]
    pipe = subprocess.PIPE
    environment["TMPDIR"] = str(copies)
    with subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("id,a\n" + "b,c\n" * (1 << 20))
        wait_until(lambda: any(path.stat().st_size >= 3 << 20 for path in copies.iterdir()))
        assert ended(process, number) == exit_code
    assert list(copies.iterdir()) == []


def test_an_interrupted_import_goes_on_where_it_stopped(
    environment: dict[str, str], rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    """The first batch is acknowledged, and others are in flight, when the interrupt comes."""
    rowlock_client.create_table("t", ["f"])
    file = tmp_path / "rows.csv"
    with file.open("w") as content:
        content.write("id,a\n")
        content.writelines(f"{number:06},{'x' * 1000}\n" for number in range(12_000))
    code = (
        "import os, signal, sys\n"
        "from rowlock.cli.transfer.importing import FileRows\n"
        "written_to = FileRows.written_to\n"
        "def interrupted(self, count):\n"
        "    written_to(self, count)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "FileRows.written_to = interrupted\n"
        "from rowlock.cli.start import main\n"
        "sys.argv = ['rowlock', *sys.argv[1:]]\n"
        "main()\n"
    )
    words = ["import", "t", str(file), "-m", WIDE]
    ran = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (130, "")
    found = re.fullmatch(r"interrupted; the first (\d+) rows of .* with --skip-rows (\d+), or .*\n", ran.stderr)
    assert found is not None, ran.stderr
    assert 0 < int(found[1]) == int(found[2]) < 12_000
    present = [row for row, _ in rowlock_client.table("t").scan()]
    assert present[: int(found[1])] == [b"%06d" % number for number in range(int(found[1]))]
    rest = subprocess.run([ROWLOCK, *words, "--skip-rows", found[1]], env=environment, capture_output=True, text=True)
    count = 12_000 - int(found[1])
    assert rest.stdout == f"{count} rows, {count} cells\n"
    assert rowlock_client.table("t").count() == 12_000


def test_it_also_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "rowlock", "--version"], capture_output=True, text=True)
    assert ran.stdout.startswith("rowlock ")


@pytest.fixture
def shell(wide: rowlock.Table[bytes], environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal([ROWLOCK, "shell"], environment)
    yield terminal
    terminal.close()


def test_the_shell_runs_commands_completes_and_remembers(shell: Terminal, tmp_path: Path) -> None:
    shell.wait_for("'exit' leaves.")
    shell.wait_for("rowlock>")
    shell.type("get wi\t")
    shell.wait_for("de")
    shell.type(" r00000\r")
    shell.wait_for("f:a")
    shell.wait_for("rowlock>")
    shell.type("get wide r00000 f\t")
    shell.wait_for(":")
    shell.type("nosuch\r")
    shell.wait_for("no such cells")
    shell.wait_for("rowlock>")
    shell.type("nonsense\r")
    shell.wait_for("No such command 'nonsense'. Try 'help'.")
    shell.wait_for("rowlock>")
    shell.type("get wide\r")
    shell.wait_for("Missing argument 'ROW'. Try 'help get'.")
    shell.wait_for("rowlock>")
    shell.type("delete-range wide\r")
    shell.wait_for("; 'truncate' deletes all rows")
    shell.wait_for("rowlock>")
    shell.type("help get\r")
    shell.wait_for("Usage: get [OPTIONS] TABLE ROW")
    shell.wait_for("rowlock>")
    shell.type("get wide r0299\t")
    shell.wait_for("r02990")
    shell.type("\x15scan wide --keys-\t")
    shell.wait_for("only")
    shell.type(" --limit 1\r")
    shell.wait_for("r00000")
    shell.wait_for("rowlock>")
    shell.type("history 2\r")
    shell.wait_for("scan wide --keys-only --limit 1")
    shell.wait_for("history 2")
    shell.wait_for("rowlock>")
    shell.type("history x\r")
    shell.wait_for("'x' is not an integer. Try 'history 100'.")
    shell.wait_for("rowlock>")
    shell.type("clear\r")
    shell.wait_for("\x1b[2J")
    shell.wait_for("rowlock>")
    shell.type("exit\r")
    assert shell.exit_code() == 0
    history = (tmp_path / "state" / "rowlock" / "history").read_text()
    assert "+get wide r00000\n" in history
    assert "+get wide r00000 f:nosuch\n" in history


def test_the_shell_survives_an_interrupt_and_ends_with_the_input(shell: Terminal) -> None:
    shell.wait_for("rowlock>")
    shell.type("get half a line")
    shell.wait_for("line")
    shell.type("\x03")
    # Not the prompt: that may be the old line, drawn again.
    shell.type("get wide r00000 f:nosuch\r")
    shell.wait_for("no such cells")
    shell.wait_for("rowlock>")
    shell.type("\x04")
    assert shell.exit_code() == 0


@pytest.mark.parametrize(("answer", "exit_code"), [("n", 2), ("y", 0)])
def test_drop_asks_at_a_terminal(
    wide: rowlock.Table[bytes],
    rowlock_client: rowlock.Client,
    environment: dict[str, str],
    answer: str,
    exit_code: int,
) -> None:
    terminal = Terminal([ROWLOCK, "drop", "wide"], environment)
    try:
        terminal.wait_for("Remove table wide with all rows? [y/N] ")
        terminal.type(f"{answer}\r")
        assert terminal.exit_code() == exit_code
    finally:
        terminal.close()
    assert rowlock_client.tables() == (["wide"] if exit_code else [])
