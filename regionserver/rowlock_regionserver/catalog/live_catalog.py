"""The catalog that counts: replaced whole by each table operation, and then noted in the log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.catalog import catalog
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.wal.log import Log


class LiveCatalog:
    """Changed by one thread at a time; its state may be read by any."""

    def __init__(self, folder: Path, files: Files, log: Log, generation: int, state: CatalogState) -> None:
        """As it was found in the data folder."""
        self._folder = folder / "catalog"
        self._files = files
        self._log = log
        self._generation = generation
        self.state = state

    @contextlib.contextmanager
    def committed(self, state: CatalogState, what: str) -> Iterator[None]:
        """Commits the state, and lets the block do what follows from it. The log has noted it durably at the end.

        Raises what write_catalog does, with nothing changed; or UnknownOutcomeError: `what` was done, or was not.
        """
        self.commit(state)
        try:
            with self._log.order:
                self._log.note_catalog(self._generation)
            yield
            self._log.sync(gives_up=self._waits_for_space)
        except UnknownOutcomeError:
            raise
        except Exception as error:  # Whatever it is: the tables that are served may not be those of the catalog.
            # What our own errors say of changes is not so of this one.
            why = "" if isinstance(error, RegionServerError) else f" ({str(error) or type(error).__name__})"
            raise UnknownOutcomeError(
                f"{what}, but then the server failed{why} and is ending: it may be found or not when it is back"
            ) from error

    def commit(self, state: CatalogState) -> None:
        """The commit point. Raises what write_catalog does."""
        state = replace(state, log_position=self._log.durable)
        catalog.write_catalog(self._files, self._folder, self._generation + 1, state)
        self._generation += 1
        self.state = state

    def _waits_for_space(self) -> bool:
        """Then a sync is not waited for: to drop a table may be what frees some."""
        return self._log.waits_for_space
