"""Convolutions on this CPU: products whose operands are gathered from fields."""
