"""SDDMM: dense times dense at a sparse pattern, without a dense intermediate: the gradient of stored values."""
