"""Do two builds make the same modelled products? ``python bench/hash_modelled.py`` prints hashes of drawn calls.

Calls are drawn from ``--seed``: types, sizes, groups, strides, partials, proportions of memory small enough for loops,
machines of few tiles, roundings at random. Run it in both builds, at any level (``POPLIBS_MAX_ISA``) and with any
number of threads (``POPLIBS_NUM_THREADS``): modelled results depend on the plan alone, so the lines are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from typing import Any

import ml_dtypes
import numpy as np

from poplibs_py import errors, poplin
from poplibs_py.target import Target

CHUNK = 500
PASSES = ("INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")
TYPES = (np.float32, np.float16, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)
MACHINES: tuple[Any, ...] = ("gc200", "bow", *(Target.gc200(tiles=n) for n in (4, 16, 60)))


def drawn(rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arrays, and its keywords."""
    top = int(rng.choice([12, 60, 200]))
    m, k, n = (int(rng.integers(1, top + 1)) for _ in range(3))
    groups = () if rng.random() < 0.6 else (int(rng.integers(1, 9)),)
    dtype = TYPES[rng.integers(len(TYPES))]
    arrays = tuple(_array(rng, groups + shape, dtype) for shape in ((m, k), (k, n)))
    call: dict[str, Any] = {"target": MACHINES[rng.integers(len(MACHINES))]}
    if rng.random() < 0.5:
        call["partials_type"] = "half"
    if rng.random() < 0.6:
        call["available_memory_proportion"] = float(10 ** rng.uniform(-4, 0))
    if rng.random() < 0.4:
        call["out_dtype"] = np.float32 if rng.random() < 0.5 else np.float16
    if rng.random() < 0.3:
        call["seed"] = int(rng.integers(2**63))
    options = {}
    if rng.random() < 0.3:
        options["fullyConnectedPass"] = str(rng.choice(PASSES))
    if rng.random() < 0.2:
        options["enableMultiStageReduce"] = False
    if options:
        call["options"] = options
    return arrays, call


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    turned = rng.random() < 0.3
    values = rng.standard_normal(shape[:-2] + (shape[:-3:-1] if turned else shape[-2:]))
    if rng.random() < 0.05:
        values.flat[rng.integers(values.size)] = np.inf
    array = values.astype(np.float32).astype(dtype)
    return np.swapaxes(array, -1, -2) if turned else array


def main() -> None:
    """Print the hashes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng = np.random.default_rng(chosen.seed)
    running = hashlib.sha256()
    for i in range(1, chosen.calls + 1):
        arrays, call = drawn(rng)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                result = poplin.matmul(*arrays, **call)
                running.update(np.ascontiguousarray(result).tobytes())
            except errors.PoplibsError:
                running.update(b"refused")
        if i % CHUNK == 0 or i == chosen.calls:
            print(i, running.hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
