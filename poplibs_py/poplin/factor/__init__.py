"""Factorisations of dense matrices, batched: Cholesky, triangular systems, LU, QR, and gradients."""
