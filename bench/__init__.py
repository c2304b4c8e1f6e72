"""Benchmarks of rowlock, each against a baseline measured in the same run, and a demo of the main job.

Start reading at figures.py, which lists the figures and their targets.
"""
