"""Softmax over the stored blocks of each row, and its gradient: the middle of block-sparse attention."""
