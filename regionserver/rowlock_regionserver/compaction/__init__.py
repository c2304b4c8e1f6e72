"""Compaction: the store files of a family become fewer, and what no reader needs is dropped (docs/compaction.md)."""
