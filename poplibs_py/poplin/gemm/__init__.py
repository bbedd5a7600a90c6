"""Dense products on this CPU, as a planned op: what `poplibs_py.poplin.matmul` runs where no machine is modelled."""
