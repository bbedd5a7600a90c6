"""Every op of the catalogue, in drawn calls with arguments made bad: a clear refusal, or it is served."""

import inspect

import pytest
from hostile import SCALARS, attempt, hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poplibs_py.ops import catalogue
from poplibs_py.testing.calls import calls


@pytest.mark.parametrize("name", catalogue)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_bad_argument_of_any_call_is_refused_clearly_or_served(name, data):
    face = catalogue[name].face
    operands, keywords = data.draw(calls(name))
    parameters = inspect.signature(face).parameters
    arguments = dict(zip(parameters, operands, strict=False)) | keywords
    named = sorted(n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD)
    for _ in range(data.draw(st.integers(1, 2))):
        argument = data.draw(st.sampled_from(named))
        bad = hostile(arguments[argument]) if argument in arguments else st.sampled_from(SCALARS)
        arguments[argument] = data.draw(bad, label=argument)
    attempt(face, arguments)
