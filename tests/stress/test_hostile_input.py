"""Every public function that is no op with arguments made bad: a clear refusal, or the call is served."""

import pytest
from cases import OWN
from hostile import attempt, hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("case", OWN, ids=str)
def test_the_good_call_is_served(case):
    assert attempt(case.function, case.make())


@pytest.mark.parametrize("case", OWN, ids=str)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_bad_argument_is_refused_clearly_or_served(case, data):
    arguments = case.make()
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(arguments.keys() - {"owner"})))
        arguments[name] = data.draw(hostile(arguments[name]), label=name)
    attempt(case.function, arguments)
