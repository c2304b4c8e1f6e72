"""Runs rowlock-server in forks of an interpreter that has imported its modules.

Most of what a short-lived server costs is the import of its modules. This program imports them once; standard input is
a socket, from which it reads one message for each server: the command line, the environment and the source of a
program in place of the command as JSON, and three descriptors: of the server's standard output and standard error, and
one to which it writes the server's process id and, when it has ended, its status.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Sequence

from rowlock_regionserver import __main__ as command

MESSAGE_BYTES_MAX = 1 << 20
NUMBER = struct.Struct("<q")


def main() -> None:
    """Forks until the other end of the socket is closed. In a fork it runs the server."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # As the command does before its imports.
    import rowlock_regionserver.rpc.grpc.cancelled_calls
    import rowlock_regionserver.server
    import rowlock_regionserver.settings  # noqa: F401

    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            data, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_BYTES_MAX, 3)
            if not data:
                return
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            keeper = os.fork()
            if not keeper:
                break
            for descriptor in descriptors:
                os.close(descriptor)
    _keep(data, descriptors)


def _keep(data: bytes, descriptors: Sequence[int]) -> None:
    """Forks the server, and tells how it ends."""
    output, errors, told = descriptors
    server = os.fork()
    if not server:
        os.close(told)
        _become_server(data, output, errors)
        return
    for descriptor in (0, 1, 2, output, errors):
        os.close(descriptor)
    os.write(told, NUMBER.pack(server))
    _, status = os.waitpid(server, 0)
    os.write(told, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become_server(data: bytes, output: int, errors: int) -> None:
    """Does what a new interpreter does with the command line. Ends as it ends: with SystemExit."""
    words, environment, source = json.loads(data)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["rowlock-server", *words]
    command.STARTED = time.perf_counter()
    if source:
        exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    else:
        command.main()


if __name__ == "__main__":
    main()
