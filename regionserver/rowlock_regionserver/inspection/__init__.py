"""Inspection of a stopped server's folder: finds damage, and extracts intact data; can remove files set aside."""
