"""The settings of the JVMs that the programs under test start, and the server that they write to."""

from __future__ import annotations

from tests.spark.conftest import server as server
from tests.spark.conftest import short_lived_jvms as short_lived_jvms
