"""The command `rowlock-server`: serves a data folder, or inspects one.

Signal handlers are installed before any heavy import, so a server that is stopped during its start stops in order too.
SIGTERM, SIGINT and SIGHUP stop it: active requests are answered, acknowledged writes are flushed (on a full disk they
stay in the log, and a line says so), and the exit code is 0. A second signal ends it at once; acknowledged writes are
then in the log. Exit 2: it could not start, and one line on standard error says why. Exit 3: the disk failed. Exit 4,
with --embedded only: it could not start because another server serves the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import time
from collections.abc import Sequence

from rowlock_proto.server_modules import ADVICE, missing_server_modules
from rowlock_proto.standard_streams import BROKEN_PIPE, drop_unwritten, prepare_streams

from rowlock_regionserver import process
from rowlock_regionserver.log_lines import FORMATS, LEVELS, begin_log, reason_of, say_error
from rowlock_regionserver.signals import Signals

logger = logging.getLogger("rowlock_regionserver.__main__")  # __name__ is __main__ in a process.
STARTED = time.perf_counter()
DEFAULT_LISTEN = "127.0.0.1:7460"
DEFAULT_LINGER_SECONDS = 3.0
# As the client's: threads can't wait longer than about 292 years.
_SECONDS_MAX = 1e9
_INSPECTIONS = ("verify", "salvage", "remove-set-aside")
EXIT_CANT_START = 2
EXIT_FOLDER_IN_USE = 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command, and ends the process with its exit code."""
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in _INSPECTIONS:
        sys.exit(_inspect(words[0], words[1:]))
    if words and not words[0].startswith("-"):
        sys.exit(_refuse(words[0]))
    signals = Signals()
    sys.exit(_serve(_parser().parse_args(words), signals))


def _refuse(command: str) -> int:
    """Says that there is no such command. Returns the exit code."""
    from rowlock_proto.nearest import did_you_mean

    say_error(
        f"no such command: {command!r}{did_you_mean(command, _INSPECTIONS)}; the commands are "
        f"{', '.join(_INSPECTIONS)}; to serve a folder, give --data DIR",
        "text",
    )
    return EXIT_CANT_START


def _inspect(command: str, words: list[str]) -> int:
    """Runs a command on the folder of a stopped server. Returns the exit code."""
    if _says_what_is_missing("text"):
        return EXIT_CANT_START
    try:
        code = _inspected(command, words)
        sys.stdout.flush()
    except OSError as error:  # Of standard output: what fails in a folder is reported.
        drop_unwritten(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        say_error(f"{command}: standard output can't be written: {reason_of(error)}", "text")
        return EXIT_CANT_START
    return code


def _inspected(command: str, words: list[str]) -> int:
    if command == "verify":
        from rowlock_regionserver.inspection import verify

        return verify.main(words)
    if command == "salvage":
        from rowlock_regionserver.inspection import salvage

        return salvage.main(words)
    from rowlock_regionserver.inspection import remove_set_aside

    return remove_set_aside.main(words)


def _says_what_is_missing(log_format: str) -> bool:
    """Says in one line what to install, if only the client is. Returns whether it said so."""
    missing = missing_server_modules()
    if missing:
        say_error(
            f"can't start: this Python has no {', '.join(missing)}, which only the server needs; run {ADVICE}",
            log_format,
        )
    return bool(missing)


def _serve(options: argparse.Namespace, signals: Signals) -> int:
    """Serves until a signal, or until the last client of an embedded server has gone. Returns the exit code."""
    if _says_what_is_missing(options.log_format):
        return EXIT_CANT_START
    # gRPC's own log goes to standard error in another format, and repeats our messages.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    begin_log(options.log_level, options.log_format)
    process.prepare()
    # Heavy imports come after the signal handlers.
    from rowlock_regionserver.errors import DataFolderError, FolderInUseError, RegionServerError
    from rowlock_regionserver.host.stopping import unflushed_text
    from rowlock_regionserver.process_limits import limit_advice
    from rowlock_regionserver.rpc.addresses import ListenError
    from rowlock_regionserver.rpc.grpc.cancelled_calls import ignore_cancelled_calls
    from rowlock_regionserver.server import Server
    from rowlock_regionserver.settings import config_of

    ignore_cancelled_calls()
    process.limit_arrow()
    try:
        if not options.data:
            raise ValueError("--data is empty; name a folder")
        config = config_of(options.config)
        process.set_allocators(config.memory)
        server = Server(
            options.data,
            listen=DEFAULT_LISTEN if options.listen is None and not options.embedded else options.listen,
            advertise=options.advertise,
            direct=options.direct,
            advertise_direct=options.advertise_direct,
            is_insecure=options.insecure,
            linger_seconds=options.linger if options.embedded else None,
            is_self_checking=os.environ.get("ROWLOCK_VERIFY") == "1",
            config=config,
        )
        signals.attach(server)
        server.start()
    except (RegionServerError, ListenError, ValueError, OSError) as error:
        limits = "" if isinstance(error, DataFolderError) else limit_advice(error)
        advice = f"; {limits}" if limits else ""
        if isinstance(error, PermissionError):
            advice = "; let this user read and write it"
        elif isinstance(error, NotADirectoryError):
            advice = "; a file is in the place of a folder: restore the folder, or name another with --data"
        say_error(f"can't start: {error}{advice}", options.log_format)
        return EXIT_FOLDER_IN_USE if options.embedded and isinstance(error, FolderInUseError) else EXIT_CANT_START
    process.freeze_objects()
    logger.info("serving %s on %s", options.data, server.address)
    with contextlib.suppress(OSError):  # The parent process may have closed standard output.
        seconds = time.perf_counter() - STARTED
        print(
            f"rowlock-server ready on {server.address}, data in {options.data}, {seconds:.2f} s{server.startup_report}",
            flush=True,
        )
    try:
        server.wait()
    except (RegionServerError, OSError) as error:
        say_error(f"stopped with an error: {error}; acknowledged writes are in the log", options.log_format)
        return 1
    logger.info("stopped")
    if server.unflushed:
        say_error(unflushed_text(server.unflushed), options.log_format)
    return 0


class _ShowVersion(argparse.Action):
    """Looks the version up only on request: that takes as long as the import of a module."""

    def __call__(self, parser: argparse.ArgumentParser, *ignored: object) -> None:
        from importlib.metadata import version

        print(f"rowlock-server {version('rowlock')}")
        parser.exit()


class _AddSetting(argparse.Action):
    """Collects settings; `help` lists them all, and ends the process."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, value: object, name: str | None = None
    ) -> None:
        if value == "help":
            from rowlock_regionserver.settings import settings_help

            try:
                print(settings_help(), flush=True)
            except BrokenPipeError:  # Of `| head`.
                drop_unwritten(sys.stdout)
            parser.exit()
        options.config = [*options.config, value]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 <= seconds <= _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0 to {_SECONDS_MAX:g} seconds")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rowlock-server",
        description="Serves the tables in a data folder, which is made if it is missing.",
        epilog="'rowlock-server verify DIR' checks every checksum of a stopped server's folder; "
        "'rowlock-server salvage DIR OUT' extracts the intact data of a damaged folder; "
        "'rowlock-server remove-set-aside DIR' removes the files that a start has set aside, after a confirmation.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version, and exit")
    parser.add_argument("--data", metavar="DIR", required=True, help="the data folder")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where to listen ({DEFAULT_LISTEN}); port 0 takes any free port, unix:PATH is only for this user",
    )
    parser.add_argument("--advertise", metavar="HOST:PORT", help="the address for clients, if it differs from --listen")
    parser.add_argument(
        "--direct",
        metavar="HOST:PORT|off",
        help="where to take point operations and scans without gRPC (10000 above --listen's port, or a free one, and a "
        "socket in the data folder; off with --advertise)",
    )
    parser.add_argument(
        "--advertise-direct", metavar="HOST:PORT", help="the address for clients, if it differs from --direct"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow other addresses than loopback, although there is no encryption and no password, and a data folder "
        "that other users own or may write to",
    )
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE|FILE|help",
        action=_AddSetting,
        default=[],
        help="change a limit or size, like memory=1GiB or memory=50%%, which scales the other limits, or read such "
        "settings from a TOML file; may be repeated, and the last one counts; help lists and describes all",
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="warning",
        help="what to log; warning has what is wrong, and sessions that died; info has a line for each start, flush, "
        "ended session and stop, too (warning)",
    )
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="lines of text, or of JSON (text)")
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="serve the clients of this folder only: write the address into it, and stop after the last has gone",
    )
    parser.add_argument(
        "--linger",
        metavar="SECONDS",
        type=_seconds,
        default=DEFAULT_LINGER_SECONDS,
        help=f"with --embedded: stop this long after the last client ({DEFAULT_LINGER_SECONDS:g})",
    )
    return parser


if __name__ == "__main__":
    main()
