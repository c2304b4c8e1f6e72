"""Fixtures: a console with a recording client."""

from __future__ import annotations

import pytest

from tests.unit.cli.recording import Console, RecordingClient


@pytest.fixture
def console() -> Console:
    return Console(RecordingClient())
