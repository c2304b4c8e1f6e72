"""The main job on real data, from nothing to proof: every step compares what the server says with the source.

__main__.py is the story; steps.py lists its steps in order, and each step is a module of its own.
"""
