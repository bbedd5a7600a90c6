from typing import Any

import numpy as np

LAST: int
FROM_SEED: int
FROM_DEFAULT: int

def seed_default(seed: int | None, modifier: int) -> None: ...
def items(shares: int, **numbers: float) -> np.ndarray[Any, Any]: ...
