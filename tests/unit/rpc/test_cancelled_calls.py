"""A call that is cancelled before its handler begins is not worth a traceback; any other error is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # The stubs have only what is public.
from rowlock_regionserver.rpc.grpc.cancelled_calls import GRPC_LOGGER, ignore_cancelled_calls


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    monkeypatch.setattr(cygrpc, "traceback", cygrpc.traceback)
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


def test_only_other_tracebacks_are_printed(logger: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    """With grpc's own name for the module, which prints to standard error what it has logged."""
    ignore_cancelled_calls()
    for error in (asyncio.CancelledError("gone"), ValueError("broken")):
        try:
            raise error
        except BaseException:
            cygrpc.traceback.print_exc()
    assert capfd.readouterr().err.splitlines()[-1] == "ValueError: broken"
    assert cygrpc.traceback.format_exc
