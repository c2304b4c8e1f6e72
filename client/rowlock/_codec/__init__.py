"""Encodes and decodes values, keys and columns, whole Arrow arrays at a time."""
