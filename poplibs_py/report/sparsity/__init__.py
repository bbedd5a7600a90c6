"""The block-sparse benchmark: the PopSparse paper's sweep on this CPU, with checked answers and the peers beside it.

`cases` says which problems, `methods` what takes part, `check` when an answer is right, `sweep` runs, `record` is a row
of the results, `charts`, `results` and `summary` show them. ``poplibs-py bench sparsity`` and
``bench/bench_sparsity.py`` both run these.
"""

from .cases import TYPES, Axes, Case, PatternFile, axes_of, paper_axes, quick_cases, quick_file_cases
from .methods import METHODS
from .record import COLUMNS, PAPER_COLUMNS, Record, csv_text
from .results import results_page
from .summary import summary
from .sweep import Sweep

__all__ = ["COLUMNS", "METHODS", "PAPER_COLUMNS", "TYPES", "Axes", "Case", "PatternFile", "Record", "Sweep", "axes_of",
           "csv_text", "paper_axes", "quick_cases", "quick_file_cases", "results_page", "summary"]
