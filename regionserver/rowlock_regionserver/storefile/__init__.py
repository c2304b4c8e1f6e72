"""Store files: one immutable file of one family's sorted cells each. Its layout is docs/storefile_format.md.

format, info, metadata, index, bloom   what is in a file, as values
sorting, cutter, container, writer     how one is made
extents, block, row_windows, cache     how its parts are read
reader                                 StoreFile, the Source
verify, salvage                        what of a file is damaged, and what of a damaged one is whole
"""
