"""The memstore: one family's cells of one region in memory, sorted, until they are flushed."""
