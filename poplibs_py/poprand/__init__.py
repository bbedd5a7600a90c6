"""PopRand: random numbers."""
