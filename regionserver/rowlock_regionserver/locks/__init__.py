"""Locks for table operations: a tree of tables and regions, shared and exclusive. docs/locks.md."""
