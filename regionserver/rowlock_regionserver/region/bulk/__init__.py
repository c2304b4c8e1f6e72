"""Bulk batches."""
