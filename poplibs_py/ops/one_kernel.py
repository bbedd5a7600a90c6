"""What an op that one kernel serves runs, as it is told to a reader."""

from __future__ import annotations

from ..kernels import Selection
from ..planner import Explanation
from ..planner.explain import considered_kernels
from ..program import Executable

__all__ = ["OneKernel"]


class OneKernel:
    """What runs, ready, and for a reader its kernel: what records of an executable and the kernel's selection share.

    Attributes
    ----------
    executable : Executable
    selection : Selection
    problem : str
        What is computed, in words.
    """

    executable: Executable
    selection: Selection

    @property
    def problem(self) -> str:
        """What is computed."""
        raise NotImplementedError

    @property
    def kernel(self) -> str:
        """The kernel, for a reader."""
        return self.selection.kernel.label

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self.executable.threads

    def decisions(self) -> dict[str, str]:
        """Return what was decided besides the kernel and the threads."""
        return {}

    def explain(self) -> Explanation:
        """Return what was decided."""
        decided = {"kernel": self.kernel, **self.decisions(), "threads": str(self.threads)}
        return Explanation(self.problem, decided, considered_kernels(self.selection))

    def __str__(self) -> str:
        return self.explain().words()
