"""Kernels over Arrow columns of cells and lines. They know the order and kinds of cells, but not who sees which."""
