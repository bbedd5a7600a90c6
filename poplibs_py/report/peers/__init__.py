"""Other libraries that do the same work, for benchmarks: which are installed, and how to call them alike.

NumPy and SciPy are always there. MKL is called through its shared library (`mkl`), torch through its Python face;
both are used when they are installed and never needed. `dense_routes` and `sparse_routes` return every way to get
``W @ X`` from them as `Route` objects with one face, `convolution_routes` every way to get a layer's three passes from
torch, onnxruntime and OpenVINO; `limited_threads` holds them and this library to a number of threads.
"""

from .convolutions import PASSES, convolution_routes
from .mkl import Mkl, load_mkl
from .routes import Route, dense_routes, sparse_routes
from .threads import limited_threads
from .versions import LIBRARIES, installed, restraints

__all__ = ["LIBRARIES", "PASSES", "Mkl", "Route", "convolution_routes", "dense_routes", "installed", "limited_threads",
           "load_mkl", "restraints", "sparse_routes"]
