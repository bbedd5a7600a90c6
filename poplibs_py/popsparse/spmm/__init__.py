"""SpMM: a block-sparse times a dense matrix, from a call to a program that serves every pattern of its kind."""
