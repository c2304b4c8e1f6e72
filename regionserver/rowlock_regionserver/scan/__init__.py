"""Scans and gets: visibility, merge and filters as pure functions on Arrow tables, and the point-get path."""
