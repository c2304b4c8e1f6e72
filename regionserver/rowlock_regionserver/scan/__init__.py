"""Scans and gets: merges, filters and selections as pure functions on Arrow tables, and the point read path."""
