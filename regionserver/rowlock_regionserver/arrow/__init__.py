"""Kernels over Arrow columns of cells. They know no rule of the store."""
