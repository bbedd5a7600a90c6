"""Tools to test numerics with: bounds, distances, strategies, references."""
