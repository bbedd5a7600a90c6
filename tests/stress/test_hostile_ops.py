"""Every op of the catalogue, in drawn calls with arguments made bad: a clear refusal, or it is served."""

import inspect
from functools import partial

import pytest
from hostile import SCALARS, attempt, hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poplibs_py.ops import catalogue
from poplibs_py.testing.calls import calls


@pytest.mark.parametrize("name", catalogue)
@settings(max_examples=settings.default.max_examples // 2,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_bad_argument_of_any_call_is_refused_clearly_or_served(name, data):
    face = catalogue[name].face
    operands, keywords = data.draw(calls(name))
    parameters = inspect.signature(face).parameters
    places = [n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    rest = next((n for n in places if parameters[n].kind is inspect.Parameter.VAR_POSITIONAL), None)
    if rest is not None:  # as many as the call has, by their places
        places = places[: places.index(rest)]
        places += [f"{rest}[{i}]" for i in range(len(operands) - len(places))]
    arguments = dict(zip(places, operands, strict=False)) | keywords
    named = sorted({n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)} | {*arguments})
    for _ in range(data.draw(st.integers(1, 2))):
        argument = data.draw(st.sampled_from(named))
        bad = hostile(arguments[argument]) if argument in arguments else st.sampled_from(SCALARS)
        arguments[argument] = data.draw(bad, label=argument)
    if rest is not None:
        face = partial(face, *(arguments.pop(place) for place in places))
    attempt(face, arguments)
