"""The PopSparse paper beside the model: its figures, the calibrated cost, the comparison.

``poplibs-py bench sparsity --target bow --compare-paper`` shows it; what is off, and why, is in the documentation.
"""

from .calibrated import CALIBRATION, Calibration, PlanFigures, figures_of_plan
from .comparison import BreakEven, Compared, Verdict, break_evens, cells_of, cells_of_axes, compare, verdict_of
from .figures import LAW, PUBLISHED, Figure, law_of_speed_up, read_figures
from .page import comparison_page
from .products import Cell, ModelledProducts, Rate
from .runs import MachineRuns
from .tables import csv_text, summary

__all__ = ["CALIBRATION", "LAW", "PUBLISHED", "BreakEven", "Calibration", "Cell", "Compared", "Figure", "MachineRuns",
           "ModelledProducts", "PlanFigures", "Rate", "Verdict", "break_evens", "cells_of", "cells_of_axes", "compare",
           "comparison_page", "csv_text", "figures_of_plan", "law_of_speed_up", "read_figures", "summary", "verdict_of"]
