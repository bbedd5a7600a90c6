"""PopOps: element-wise operations, casts and reductions."""

from .cast import cast

__all__ = ["cast"]
