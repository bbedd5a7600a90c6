"""Every op of the catalogue, in drawn calls with arguments made bad: a clear refusal, or it is served."""

import inspect

import numpy as np
import pytest
from cases import by_name
from hostile import SCALAR, attempt, hostile, snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poplibs_py.errors import PoplibsError
from poplibs_py.ops import catalogue
from poplibs_py.testing.calls import calls
from poplibs_py.testing.cases import cases


@pytest.mark.parametrize("name", catalogue)
@settings(max_examples=settings.default.max_examples // 2,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_bad_argument_of_any_call_is_refused_clearly_or_served(name, data):
    face = catalogue[name].face
    call, arguments = by_name(face, *data.draw(calls(name)))
    parameters = inspect.signature(face).parameters
    named = sorted({n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} | {*arguments})
    for _ in range(data.draw(st.integers(1, 2))):
        argument = data.draw(st.sampled_from(named))
        bad = hostile(arguments[argument]) if argument in arguments else SCALAR
        arguments[argument] = data.draw(bad, label=argument)
    attempt(call, arguments)


@pytest.mark.parametrize("name", [name for name, record in catalogue.items() if record.written == "out"])
def test_what_cannot_receive_the_result_is_refused_and_left_as_it_was(name):
    case = cases(name)[0]
    call, arguments = by_name(catalogue[name].face, case.operands, case.keywords)
    made = call(**arguments)
    first, *rest = [getattr(part, "blocks", part) for part in (made if isinstance(made, tuple) else (made,))]
    fixed = first.copy()
    fixed.flags.writeable = False
    wrong = [fixed, np.zeros((*first.shape, 1), first.dtype), np.zeros(first.shape, np.complex64)]
    for out in wrong + [(one, *rest) for one in wrong if rest]:
        receivers = dict(enumerate(out if rest and isinstance(out, tuple) else (out,)))
        before = snapshot(receivers)
        with pytest.raises(PoplibsError, match=r": got .*; allowed: "):
            call(**{**arguments, "out": out})
        assert snapshot(receivers) == before
