"""PopLibs' partitioner of dynamic sparsity: patterns as buckets of meta-information and values, and back."""

from .api import Partitioner
from .data import SparsityData
from .layout import BucketLayout

__all__ = ["BucketLayout", "Partitioner", "SparsityData"]
