"""A call that is cancelled before its handler begins is not worth a traceback; any other error is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from rowlock_regionserver.rpc.grpc.cancelled_calls import GRPC_LOGGER, ignore_cancelled_calls


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(GRPC_LOGGER)
    before = list(logger.filters)
    yield logger
    logger.filters[:] = before


def test_only_cancelled_calls_are_left_out(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    ignore_cancelled_calls()
    for error in (asyncio.CancelledError(), ValueError("broken")):
        try:
            raise error
        except BaseException:
            logger.exception(
                "Exception not handled by _handle_exceptions in servicer method [%s]", type(error).__name__
            )
    logger.error("no exception")
    assert [record.getMessage()[-12:] for record in caplog.records] == ["[ValueError]", "no exception"]
