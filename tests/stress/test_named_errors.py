"""Arguments of the wrong kind that once led to errors that name nothing: each is refused by its name."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from poplibs_py import cast, config, planner, poplin, popops, poprand
from poplibs_py.errors import MissingPackageError, PoplibsError
from poplibs_py.formats import F143, FP32, Format, QuarterArray, bounds, reference
from poplibs_py.poplin.tile_conv import ConvOptions, ConvProblem, matmul_params, plan_convolution, plan_convolutions
from poplibs_py.popsparse import BlockSparseMatrix, bs_softmax_bound, bs_softmax_grad_bound, static
from poplibs_py.report import conditions
from poplibs_py.report.profile import Profile
from poplibs_py.target import Target

X = np.ones((4, 4), np.float32)
W = BlockSparseMatrix.from_dense(X, 2)
PROBLEM = ConvProblem(Target.small(8), matmul_params(1, 64, 64, 64, "half"), ConvOptions())
BALL = bounds.Ball.exact(np.ones(3))
PARTS: dict[str, Any] = {"shape": (4, 4), "row_offsets": W.row_offsets, "column_indices": W.column_indices}


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


CALLS: dict[str, list[Any]] = {
    "proportions": [
        lambda: planner.sweep(PROBLEM, 0.1), lambda: planner.sweep(PROBLEM, None), lambda: planner.sweep(PROBLEM, []),
        lambda: planner.sweep(PROBLEM, ["a"]), lambda: planner.sweep(PROBLEM, [X]),
        lambda: planner.sweep(PROBLEM, "0.1"),
        lambda: planner.fit([PROBLEM], 1 << 20, proportions=None), lambda: planner.fit([PROBLEM], 1, proportions=[]),
        lambda: planner.fit([PROBLEM], 1 << 20, proportions=0.5),
        lambda: planner.fit([PROBLEM], 1 << 20, proportions=np.array(0.5)),
        lambda: planner.sweep(PROBLEM, np.zeros(1 << 20)),
    ],
    "problem": [lambda: planner.sweep(None, [0.1]), lambda: planner.sweep(X, [0.1])],
    "problems": [lambda: planner.fit(PROBLEM, 1 << 20), lambda: planner.fit([X], 1)],
    "shared": [lambda: planner.fit([PROBLEM], 1 << 20, shared=X), lambda: planner.fit([PROBLEM], 1 << 20, shared="no")],
    "cache": [
        lambda: plan_convolution(PROBLEM.params, target=PROBLEM.target, cache=[]),
        lambda: plan_convolution(PROBLEM.params, cache="folder"), lambda: plan_convolutions([PROBLEM.params], cache={}),
    ],
    "alpha": [lambda: poplin.matmul(X, X, alpha=X), lambda: poplin.matmul(X, X, alpha="2")],
    "activation": [
        lambda: poplin.plan_matmul((4, 4), (4, 4), activation=X), lambda: poplin.matmul(X, X, activation=X),
        lambda: static.sparse_dense_matmul(W, X, activation=X),
    ],
    "copy": [lambda: BlockSparseMatrix.from_blocks(W.blocks, copy=X, **PARTS),
             lambda: BlockSparseMatrix.from_blocks(W.blocks, copy=None, **PARTS)],
    "out_dtype": [
        lambda: poplin.matmul(X, X, out_dtype=Unhashable()), lambda: poplin.matmul(X, X, out_dtype=np.ones(2)),
        lambda: static.sparse_dense_matmul(W, X, out_dtype=Unhashable()), lambda: poplin.matmul(X, X, out_dtype=[1]),
        lambda: static.sparse_grad_w(W, X, X, out_dtype={}), lambda: popops.neq(X, X, out_dtype="\ud800"),
    ],
    "condition": [lambda: popops.select_grad([1.0, 2.0], [[True], [False, True]])],
    "padding": [lambda: poplin.convolution(X[None, None], X[None, None],
                                           padding=np.broadcast_to(np.int64(0), (1 << 20, 1 << 20)))],
    "flushes": [lambda: bounds.matmul_ball(X, X, flushes=X)],
    "variables": [lambda: conditions.environment({1: "x"}), lambda: conditions.environment(None)],
    "ord": [lambda: popops.norm(X, ord=X)],
    "path": [lambda: Profile.load(3), lambda: Profile().save(X)],
    "dtype": [
        lambda: cast(X, Unhashable()), lambda: cast(X, []), lambda: reference.decode(np.zeros(2, np.uint8), None),
        lambda: reference.encode(X, 3), lambda: bounds.rounding_error(1.0, 3), lambda: BALL.rounded("fp7"),
        lambda: bs_softmax_bound(X, X > 0, 3), lambda: poprand.uniform((3,), seed=1, dtype=[]),
    ],
    "out": [
        lambda: poplin.matmul(X, X, out=np.ones((4, 4))), lambda: cast(X, "float32", out=np.ones((4, 4))),
        lambda: static.sparse_dense_matmul(W, X, out=np.ones((4, 4))), lambda: popops.exp(X, out=np.ones((4, 4))),
    ],
    "codes": [lambda: reference.decode("x", F143), lambda: reference.decode(X, F143),
              lambda: reference.decode(None, F143)],
    "scale": [lambda: reference.decode(np.zeros(2, np.uint8), F143, 0.5),
              lambda: reference.encode(X, F143, scale="auto"),
              lambda: bs_softmax_bound(X, X > 0, F143, "auto"), lambda: bs_softmax_bound(X, X > 0, F143, 4000)],
    "values": [lambda: popops.sort_key_value([1.0, 2.0], None), lambda: reference.encode("x", F143),
               lambda: reference.encode([[1], [1, 2]], F143),
               lambda: bounds.Ball.exact("x"), lambda: BALL + "x", lambda: BALL * None],
    "rounding": [lambda: reference.encode(X, F143, rounding="wrong"), lambda: bounds.rounding_error(1.0, FP32, None)],
    "overflow": [lambda: reference.encode(X, F143, overflow="wrap"), lambda: reference.encode(X, F143, overflow="inf"),
                 lambda: BALL.rounded(F143, overflow="wrap")],
    "words": [lambda: reference.encode(X, F143, rounding="stochastic"),
              lambda: reference.encode(X, F143, rounding="stochastic", words=X)],
    "random_bits": [lambda: reference.encode(X, F143, rounding="stochastic", words=np.zeros((4, 4), np.uint32),
                                             random_bits=40)],
    "unit_roundoff": [lambda: bounds.gamma(3, "x")],
    "value": [lambda: bounds.rounding_error("x", FP32)],
    "centre": [lambda: bounds.Ball("x", 0.0), lambda: bounds.sum_ball("x", 1.0, 3)],
    "radius": [lambda: bounds.Ball(1.0, "x"), lambda: bounds.Ball(np.ones(3), np.ones(2))],
    "got": [lambda: BALL.contains("x")],
    "magnitude": [lambda: bounds.sum_ball(1.0, "x", 3)],
    "terms": [lambda: bounds.sum_ball(1.0, 1.0, "x"), lambda: bounds.gamma("x", 2.0**-24)],
    "partials_dtype": [lambda: bounds.sum_ball(1.0, 1.0, 3, "fp7"), lambda: bounds.matmul_ball(X, X, 3)],
    "a": [lambda: bounds.matmul_ball("x", X), lambda: popops.add(10**400, X)],
    "b": [lambda: bounds.matmul_ball(X, "x"), lambda: bounds.matmul_ball(X, np.ones((3, 4))),
          lambda: bounds.matmul_ball(np.ones(4), X),
          lambda: bounds.matmul_ball(np.ones((2, 4, 4)), np.ones((3, 4, 4)))],
    "products": [lambda: bounds.dot_ball("x")],
    "axis": [lambda: bounds.dot_ball(X, 2), lambda: bounds.dot_ball(X, "x")],
    "x": [
        lambda: popops.argmax(np.broadcast_to(np.float32(0), (1 << 20, 1 << 20))),
        lambda: static.sparse_dense_matmul(BlockSparseMatrix.from_dense(X, 4), np.float32(3), target="bow"),
        lambda: bs_softmax_bound("x", X > 0), lambda: bs_softmax_bound(None, X > 0)],
    "keep": [lambda: bs_softmax_bound(X, "x"), lambda: bs_softmax_bound(X, 3), lambda: bs_softmax_bound(X, X),
             lambda: bs_softmax_bound(X, np.ones(3, bool))],
    "y": [lambda: bs_softmax_grad_bound("x", X)],
    "grad": [lambda: bs_softmax_grad_bound(X, "x"), lambda: bs_softmax_grad_bound(X, np.ones(3))],
    "environment": [lambda: config.read_settings(3), lambda: config.read_settings(None),
                    lambda: config.read_settings([])],
    "POPLIBS_LOG_LEVEL": [lambda: config.read_settings({"POPLIBS_LOG_LEVEL": 3})],
    "POPLIBS_NUM_THREADS": [lambda: config.read_settings({"POPLIBS_NUM_THREADS": 4}),
                            lambda: config.read_settings({"POPLIBS_NUM_THREADS": "many"})],
    "block_shape": [lambda: QuarterArray.from_array(X, Format("t", 3, 2, 3), block_shape=3)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "call"), [
    pytest.param(name, call, id=f"{name}-{i}") for name, calls in CALLS.items() for i, call in enumerate(calls)
])
def test_a_wrong_argument_is_named(name: str, call: Any) -> None:
    with pytest.raises(PoplibsError, match=rf"^{name}: got .+; allowed: ") as caught:
        call()
    assert len(str(caught.value)) < 500


def test_an_array_as_alpha_on_a_modelled_machine_is_refused_by_name() -> None:
    with pytest.raises(PoplibsError, match="alpha"):
        poplin.matmul(X, X, alpha=X, target="gc200")


def test_an_output_of_float64_is_told_what_it_may_be() -> None:
    with pytest.raises(PoplibsError) as caught:
        poplin.matmul(X, X, out=np.ones((4, 4)))
    assert "astype" not in str(caught.value), "a copy would receive nothing"
    assert "a Format" not in str(caught.value)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = r"^matplotlib cannot be imported .*pip install 'poplibs_py\[plot\]'"
    with pytest.raises(MissingPackageError, match=told) as caught:
        planner.sweep(PROBLEM, [0.1]).plot()
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "matplotlib"
