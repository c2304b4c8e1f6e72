"""Store files: immutable files, each with sorted cells of one family. docs/storefile_format.md describes the layout.

format, info, metadata, index, bloom                   the contents of a file, as values
cell_properties, cutter, container, writer             writing
extents, block, blocks, large_values, row_windows      reading the parts
cache, open_files                                      bounded memory and descriptors, shared by all files
reader                                                 StoreFile, the Source
verify, salvage                                        finding damage, and saving intact blocks
"""
