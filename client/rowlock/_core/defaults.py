"""The defaults of arguments, apart from the modules that need pyarrow, which is slow to import."""

from __future__ import annotations

# Of bulk writes.
BATCH_BYTES_DEFAULT = 8 * 1024 * 1024
BUSY_TIMEOUT_S_DEFAULT = 3600.0
# Of splits.
PART_BYTES_DEFAULT = 32 << 20
