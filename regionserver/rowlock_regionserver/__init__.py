"""The region server: keeps rows of cells, changes each row atomically, answers reads and scans.

Layers, each importing only those to its left: cells errors config clock files < wal memstore storefile scan
< region < catalog < rpc < server. A test holds them to it.
"""
