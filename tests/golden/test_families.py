"""Every case of a family that is built is a test; whatever else lies in the folder, or does not, is told by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .families import parameters

VARIABLE = "POPLIBS_TESTS_GOLDEN"


def told(params: list[Any]) -> dict[str, str]:
    """Each parameter's id, with the reason why it is skipped, or nothing."""
    return {param.id: "".join(mark.kwargs["reason"] for mark in param.marks) for param in params}


def unexpected(case: Any) -> None:
    raise AssertionError(case)


def test_each_line_is_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    specs = [{"spec": "x=1"}, {"vertex": "V"}, {"spec": "x=1"}]
    (tmp_path / "plan_small.jsonl").write_text("\n\n".join(map(json.dumps, specs)) + "\nno JSON\n")
    (tmp_path / "plane.jsonl").write_text("{}\n")
    (tmp_path / "notes.md").write_text("no cases")
    seen: list[Any] = []
    params = parameters(VARIABLE, "any", ".jsonl", {"plan": lambda case: seen.append(case.fields), "gone": unexpected})
    assert told(params) == {
        "plan_small-1 x=1": "", "plan_small-3 V": "", "plan_small-5 x=1": "", "plan_small-6": "",
        "plane": "plane: not built yet (1 cases)", "gone": "gone: no cases here",
    }  # fmt: skip
    for param in params[:3]:
        run, case = param.values
        run(case)
    assert seen == specs
    run, case = params[3].values
    with pytest.raises(ValueError, match="Expecting value"):
        run(case)


def test_arrays_are_read_from_the_file_of_their_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    specs = [json.dumps({"op": "double", "params": {"n": n}, "exact": bool(n)}) for n in range(3)]
    np.savez(tmp_path / "sums.npz", spec=np.array(specs), **{f"{n}.x": np.full(2, n) for n in range(3)})
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    params = parameters(VARIABLE, "any", ".npz", {"sums": unexpected})
    assert told(params) == {"damaged-unreadable": "", "sums-0 double": "", "sums-1 double": "", "sums-2 double": ""}
    for n, param in enumerate(params[1:]):
        case = param.values[1]
        assert (case.params, case.exact, case["x"].tolist()) == ({"n": n}, bool(n), [n, n])
    run, case = params[0].values
    with pytest.raises(pytest.fail.Exception, match=r"damaged\.npz: "):
        run(case)


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_without_cases_there_is_one_skip(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / folder))
    [(name, reason)] = told(parameters(VARIABLE, "any", ".npz", {"sums": unexpected})).items()
    assert name == "any"
    assert VARIABLE in reason
