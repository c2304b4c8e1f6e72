"""How fast rowlock is, each figure against a baseline measured in the same run, and the demo of the main job.

Start reading at figures.py, which lists what is measured and what it should be.
"""
