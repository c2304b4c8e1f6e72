"""The region server: stores rows of cells, changes each row atomically, and serves reads and scans.

Layers, each of which imports only from those to its left:

    ground < arrow < versions < wal memstore storefile scan < commit < region, catalog < host < engine < rpc < server

The ground is the modules of this folder: values, errors, settings, the clock, files and memory. tests/tidy checks this.
"""
