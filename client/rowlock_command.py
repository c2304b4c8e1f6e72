"""The entry point of the command `rowlock`. Outside the package, whose first import takes longer than this one.

It imports only where an interrupt is caught: as an exception one would print a traceback.
"""


def main() -> None:
    """Runs the command line of the process, and ends it."""
    try:
        from rowlock.cli.start import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        import os

        os.write(2, b"interrupted\n")
        os._exit(130)
