"""Dense products: params, options, plan, lowering and the calls; see `poplibs_py.poplin`."""
