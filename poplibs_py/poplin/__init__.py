"""PopLin: dense matrix multiplication and convolution."""
