"""The current catalog: each table operation writes its next generation, and notes it in the log."""

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
    """Changed by one thread at a time; any thread may read `state`."""

    def __init__(self, folder: Path, files: Files, log: Log, generation: int, state: CatalogState) -> None:
        """`generation` and `state` are those of the data folder."""
        self._folder = folder / "catalog"
        self._files = files
        self._log = log
        self._generation = generation
        self.state = state

    @contextlib.contextmanager
    def committed(self, state: CatalogState, what: str) -> Iterator[None]:
        """Commits the state, runs the block, which applies it, and syncs the log's note of the generation.

        Raises the errors of write_catalog, with nothing changed, or UnknownOutcomeError. `what` describes the
        operation.
        """
        self.commit(state)
        try:
            with self._log.order:
                self._log.note_catalog(self._generation)
            yield
            # Without space for the log it is not durable then: this operation may be a drop that frees some.
            self._log.sync()
        except UnknownOutcomeError:
            raise
        except Exception as error:  # Of any kind: the served tables may differ from the catalog.
            # Our own messages say that nothing was changed, which is wrong here.
            why = "" if isinstance(error, RegionServerError) else f" ({str(error) or type(error).__name__})"
            raise UnknownOutcomeError(
                f"{what}, but then the server failed{why} and is ending: the operation may or may not be in effect "
                "after the restart"
            ) from error

    def commit(self, state: CatalogState) -> None:
        """The commit point. Raises the errors of write_catalog."""
        state = replace(state, log_position=self._log.durable)
        catalog.write_catalog(self._files, self._folder, self._generation + 1, state)
        self._generation += 1
        self.state = state

    def reserve_session_numbers(self, until: int) -> None:
        """Makes this bound of the numbers of sessions and locks durable. Raises as `committed`."""
        with self.committed(replace(self.state, session_numbers_until=until), "numbers of sessions were reserved"):
            pass
