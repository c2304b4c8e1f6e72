"""`python -m rowlock`: the command `rowlock`, where that is not on the path."""

from __future__ import annotations

from rowlock.cli.start import main

if __name__ == "__main__":
    main()
