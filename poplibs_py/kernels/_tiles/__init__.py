"""Compiled tile kernels: one module for each family and instruction-set level."""
