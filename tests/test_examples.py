"""Every ordinary run draws the same examples, wherever the clone lies and whatever was imported before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples import MOST, examples
from hypothesis import HealthCheck, settings

CONFTEST = Path(__file__).with_name("conftest.py")
SCRIPT = f"""
import runpy, sys
runpy.run_path({str(CONFTEST)!r})
sys.path.insert(0, "")
for name in sys.argv[1:]:
    __import__(name)
from hypothesis import given, strategies as st

@given(st.lists(st.integers()), st.floats(), st.binary(), st.text("abc"))
def draw(whole, real, octets, text):
    print(repr((whole, real, octets, text)))

draw()
"""


def draws(folder: Path, *modules: str) -> str:
    """What an ordinary run draws in a folder, after modules were imported."""
    ordinary = {name: value for name, value in os.environ.items() if name not in ("HYPOTHESIS_PROFILE", "CI")}
    done = subprocess.run([sys.executable, "-c", SCRIPT, *modules], cwd=folder, env=ordinary, capture_output=True,
                          text=True, check=True)
    return done.stdout


def test_ordinary_runs_draw_the_same_examples(tmp_path: Path) -> None:
    (tmp_path / "numbers_of_ours.py").write_text("A, B, C = 123456789, 0.123456789, b'numbers'\n")
    first = draws(tmp_path)
    assert len(first.splitlines()) == settings.get_profile("ordinary").max_examples
    assert draws(tmp_path, "numbers_of_ours") == draws(CONFTEST.parent, "poplibs_py.testing") == first


def test_profiles_differ_in_what_they_say() -> None:
    ordinary, level, nightly = map(settings.get_profile, ("ordinary", "level", "nightly"))
    assert (ordinary.derandomize, level.derandomize, nightly.derandomize) == (True, True, False)
    assert level.max_examples < ordinary.max_examples < nightly.max_examples
    for profile in (ordinary, level, nightly):
        assert (profile.database, profile.deadline) == (None, None)
        assert HealthCheck.too_slow in profile.suppress_health_check


@pytest.mark.parametrize(("profile", "drawn"), [("ordinary", 40), ("level", 16), ("nightly", 40 * MOST)])
def test_numbers_of_examples_follow_the_profile(profile: str, drawn: int) -> None:
    assert examples(40, settings.get_profile(profile)) == drawn
    assert examples(1, settings.get_profile(profile)) >= 1
    assert examples(40) == examples(40, settings.default)
