"""The process that runs procedures, one call after the other: `python -m rowlock_regionserver.procedures.child`.

Its arguments are the descriptor of a socket to the server, the longest time of a call in seconds, the bytes of its data
at most, and NAME=MODULE:FUNCTION of each procedure. It imports them, says READY, and answers calls until the server
closes the socket. It imports nothing heavy, and opens no file of the server's data.

The server kills a process whose call takes too long. If the server itself has died, nobody would: so the kernel ends
the process some time later, by a timer that needs no Python to run.
"""

from __future__ import annotations

import importlib
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rowlock_regionserver.procedures.messages import BadMessageError, Channel, Field, MessageKind
from rowlock_regionserver.procedures.procedure_table import ProcedureTable, StoredCells

# What an entry point names. The result is unchecked: an operator wrote it.
Procedure = Callable[[ProcedureTable, bytes, bytes], object]

_MESSAGE_CHARACTERS_MAX = 800


class ReadRefusedError(BaseException):
    """The server refused a read. The call fails whatever the procedure does next, so it must not be caught."""


def main(arguments: Sequence[str]) -> None:
    """Serves calls until the server has gone."""
    descriptor, seconds_max, bytes_max = int(arguments[0]), float(arguments[1]), int(arguments[2])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Else code that takes all memory could make the system kill the server.
    resource.setrlimit(resource.RLIMIT_DATA, (bytes_max, bytes_max))
    channel = Channel(socket.socket(fileno=descriptor))
    procedures = {name: loaded(value) for name, _, value in (each.partition("=") for each in arguments[3:])}
    try:
        channel.send(MessageKind.READY, [])
        while True:
            kind, fields = channel.receive()
            signal.setitimer(signal.ITIMER_REAL, seconds_max)
            answer_call(channel, kind, fields, procedures)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (EOFError, ConnectionError):
        return


def loaded(value: str) -> Procedure | str:
    """Imports what an entry point names; returns why it can't."""
    module, _, path = value.partition(":")
    try:
        found: object = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:
        return f"it can't be imported: {_described(error)}"
    return found if callable(found) else f"it can't be called: {value} is of type {type(found).__name__}"


def answer_call(
    channel: Channel, kind: MessageKind, fields: Sequence[Field], procedures: Mapping[str, Procedure | str]
) -> None:
    """Makes one call, and sends its answer. Raises BadMessageError, EOFError, ConnectionError."""
    if kind is not MessageKind.CALL:
        raise BadMessageError(f"{kind.name} in place of a call")
    number, name, table_name, row, argument = [field or b"" for field in fields]
    procedure = procedures.get(name.decode(), "its process does not know it")
    if isinstance(procedure, str):
        channel.send(MessageKind.FAILED, [number, procedure.encode(errors="backslashreplace")])
        return

    def read(columns: Sequence[tuple[bytes, bytes | None]]) -> StoredCells:
        channel.send(MessageKind.READ, [number, *(part for column in columns for part in column)])
        kind, cells = channel.receive()
        if kind is not MessageKind.CELLS:
            raise ReadRefusedError((cells[0] or b"").decode())
        found = [cell or b"" for cell in cells]
        return list(zip(found[::3], found[1::3], found[2::3], strict=True))

    table = ProcedureTable(table_name.decode(), row, read)
    try:
        answer = procedure(table, row, argument)
        changes = table._end()
        if type(answer) is not bytes:
            raise TypeError(f"it returned {type(answer).__name__}, not bytes; return b'' for no answer")
    except (EOFError, ConnectionError):
        raise
    except BaseException as error:
        table._end()
        channel.send(MessageKind.FAILED, [number, _described(error).encode(errors="backslashreplace")])
    else:
        channel.send(MessageKind.DONE, [number, row, answer, *changes])


def _described(error: BaseException) -> str:
    """Returns the error's type, its text, and where it was raised."""
    try:
        text = str(error)
    except Exception:
        text = "?"
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent]
    place = f" ({Path(outside[-1].filename).name}, line {outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}: {text[:_MESSAGE_CHARACTERS_MAX]}{place}"


if __name__ == "__main__":
    main(sys.argv[1:])
