"""The entry point of the command `rowlock-server`.

It imports only where an interrupt is caught: as an exception one would print a traceback. A server that has begun to
serve handles signals itself, see signals.py.
"""


def main() -> None:
    """Runs the command of the process, and ends it."""
    try:
        from rowlock_regionserver.__main__ import main as run_command

        run_command()
    except KeyboardInterrupt:
        import os

        os.write(2, b"interrupted\n")
        os._exit(130)
