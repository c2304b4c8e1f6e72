"""A demonstration with real data. Each step compares the server's data with the source.

__main__.py runs the steps; steps/__init__.py lists them in order, and each step is a module.
"""
