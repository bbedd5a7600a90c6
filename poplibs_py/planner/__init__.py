"""Plan search: objectives, the memory ladder, constraints, the cache and explanations."""
