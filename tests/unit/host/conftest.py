"""A region without a server, for what needs no more."""

from __future__ import annotations

from tests.unit.region.conftest import lone as lone
