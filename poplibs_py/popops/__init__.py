"""PopOps: element-wise operations, casts and reductions."""
