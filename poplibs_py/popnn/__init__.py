"""PopNN: neural-network operations."""
