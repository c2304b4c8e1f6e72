"""The main job on real data; every step compares the server's answers with the source.

__main__.py runs the demo. The package steps lists its steps in order, each a module.
"""
