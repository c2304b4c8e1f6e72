"""The settings of the JVMs that the programs under test start."""

from __future__ import annotations

from tests.spark.conftest import short_lived_jvms as short_lived_jvms
