"""PopSparse: block-sparse matrices and their products."""
