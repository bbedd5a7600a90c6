"""Reports: what ran and what it cost."""
