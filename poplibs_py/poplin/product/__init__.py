"""Dense products for users: `poplibs_py.poplin.gemm` on this CPU, convolutions on modelled machines."""
