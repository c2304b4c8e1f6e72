"""Admission of requests, in plain values: bounds, deadlines, event loop or worker thread, coalesced puts."""
