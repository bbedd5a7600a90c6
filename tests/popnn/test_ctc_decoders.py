"""CTC decoders: all alignments by hand, beams, merges, thresholds, scorers, levels, layouts, what is refused."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.kernels import kernels
from poplibs_py.kernels.registry import Selection
from poplibs_py.memo import forget
from poplibs_py.popnn.ctc import lower as ctc_lower
from poplibs_py.popnn.ctc_infer import lower


def logits(steps, batch, classes, seed=0, spread=2.0):
    return (np.random.default_rng(seed).standard_normal((steps, batch, classes)) * spread).astype(np.float32)


def every_prefix(x, blank):
    """The labels of all paths with their probabilities, the likeliest first."""
    values = x.astype(np.float64)
    p = np.exp(values) / np.exp(values).sum(-1, keepdims=True)
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        labels = tuple(k for k, _ in itertools.groupby(path) if k != blank)
        found[labels] = found.get(labels, 0.0) + math.prod(p[t, k] for t, k in enumerate(path))
    return sorted(found.items(), key=lambda one: -one[1])


def labels_of(found, n, path=0):
    return tuple(found.labels[n, path, : found.label_lengths[n, path]].tolist())


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize(("steps", "classes"), [(1, 3), (4, 3), (6, 3), (5, 4)])
def test_beams_enough_find_what_all_alignments_say(steps, classes, blank):
    x = logits(steps, 2, classes, seed=steps)
    due = [every_prefix(x[:, n], blank) for n in range(2)]
    paths = min(map(len, due))
    found = popnn.ctc_beam_search_decoder(x, beams=2000, top_paths=paths + 3, blank=blank, logits=True)
    radius = testing.bound("ctc_beam_search_decoder", x, beams=2000, top_paths=paths + 3, blank=blank, logits=True)[0]
    for n in range(2):
        for i in range(paths):
            assert labels_of(found, n, i) == due[n][i][0]
            assert abs(found.log_probs[n, i] - math.log(due[n][i][1])) <= radius.radius[n, i]
        assert (found.log_probs[n, len(due[n]):] == -np.inf).all()
        assert (found.labels[n, len(due[n]):] == -1).all()
        assert not found.label_lengths[n, len(due[n]):].any()


def test_the_log_probability_of_labels_is_their_loss():
    x = logits(12, 3, 5, seed=3)
    found = popnn.ctc_beam_search_decoder(x, [12, 7, 10], beams=4000, logits=True)
    labels = np.where(found.labels[:, 0] < 0, 0, found.labels[:, 0])
    loss = popnn.ctc_loss(x, labels, [12, 7, 10], found.label_lengths[:, 0], logits=True)
    np.testing.assert_allclose(found.log_probs[:, 0], -loss, rtol=2e-4)  # of which the beams have all but the least


def test_a_prefix_that_was_left_and_comes_back_is_one():
    rng = np.random.default_rng(0)
    for _ in range(40):  # few beams and many steps: prefixes leave while longer ones stay
        x = rng.standard_normal((9, 1, 3)).astype(np.float32) * 2
        for beams in (2, 3):
            found = testing.check("ctc_beam_search_decoder", x, beams=beams, top_paths=beams, logits=True)
            paths = [labels_of(found, 0, i) for i in range(beams) if np.isfinite(found.log_probs[0, i])]
            assert len(set(paths)) == len(paths)


def test_one_beam_is_not_the_best_path():
    logs = np.log(np.float32([[[0.6, 0.4]], [[0.6, 0.4]]]))
    assert labels_of(popnn.ctc_greedy_decoder(logs), 0) == ()
    assert labels_of(popnn.ctc_beam_search_decoder(logs), 0) == (1,)
    assert np.exp(popnn.ctc_greedy_decoder(logs).log_probs[0, 0]) == pytest.approx(0.36)


def test_greedy_takes_the_first_of_equal_classes_and_joins_repeats():
    best = [0, 3, 3, 0, 3, 1, 1, 2, 0]
    x = np.zeros((9, 1, 4), np.float32)
    x[np.arange(9), 0, best] = 1
    x[2, 0, 3] = 0  # all alike: the blank
    found = popnn.ctc_greedy_decoder(x, logits=True)
    assert labels_of(found, 0) == (3, 3, 1, 2)
    assert found.labels[0, 0, 4:].tolist() == [-1] * 5
    assert labels_of(popnn.ctc_greedy_decoder(x, [6], logits=True), 0) == (3, 3, 1)


def test_a_threshold_leaves_out_what_is_unlikely():
    x = logits(10, 2, 6, seed=5)
    every = popnn.ctc_beam_search_decoder(x, beams=20, top_paths=20, logits=True)
    few = testing.check("ctc_beam_search_decoder", x, beams=20, top_paths=20, logits=True, threshold=1.5)
    assert np.isfinite(few.log_probs).sum() < np.isfinite(every.log_probs).sum()
    kept = np.where(np.isfinite(few.log_probs), few.log_probs, few.log_probs[:, :1])
    assert (kept >= few.log_probs[:, :1] - 1.5 - 1e-5).all()
    alone = popnn.ctc_beam_search_decoder(x, beams=20, top_paths=2, logits=True, threshold=0.0)
    assert np.isfinite(alone.log_probs).tolist() == [[True, False]] * 2


@pytest.mark.parametrize("beams", [1, 4, 40])
def test_a_scorer_is_asked_once_for_each_prefix_and_counts(beams):
    x, asked = logits(7, 2, 5, seed=6), []

    def scorer(prefix):
        asked.append(prefix)
        scores = np.float32([0.0, 0.5, -0.25, 1.0, -1.0]) * (1 + len(prefix))
        scores[2] = -np.inf if prefix and prefix[-1] == 1 else scores[2]
        return scores

    how = {"beams": beams, "top_paths": min(3, beams), "logits": True}
    found = testing.check("ctc_beam_search_decoder", x, [7, 5], **how, scorer=scorer)
    asked.clear()
    again = popnn.ctc_beam_search_decoder(x[:, :1], **how, scorer=scorer)
    assert len(asked) == len(set(asked))
    assert asked[0] == ()
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one[:1], other)
    silent = popnn.ctc_beam_search_decoder(x, [7, 5], **how, scorer=lambda _: np.zeros(5))
    for one, other in zip(silent, popnn.ctc_beam_search_decoder(x, [7, 5], **how), strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_that_are_none_spoil_their_sequence_alone():
    x = logits(6, 3, 4)
    x[3, 1, 2] = np.nan
    for function in (popnn.ctc_greedy_decoder, popnn.ctc_beam_search_decoder):
        found = function(x, logits=True)
        assert np.isnan(found.log_probs[:, 0]).tolist() == [False, True, False]
        assert (found.labels[1] == -1).all()
        assert found.label_lengths[1, 0] == 0
    nothing = popnn.ctc_beam_search_decoder(np.full((3, 1, 4), -np.inf, np.float32), top_paths=2)
    assert (nothing.log_probs == -np.inf).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_level_and_number_of_threads_gives_the_same_bits(dtype, monkeypatch):
    x, ends = logits(25, 4, 37, seed=8).astype(dtype), [25, 24, 0, 11]
    monkeypatch.setattr(lower, "_THREAD_WORK", 100)
    calls = {"best": lambda: popnn.ctc_greedy_decoder(x, ends, logits=True),
             "beams": lambda: popnn.ctc_beam_search_decoder(x, ends, beams=21, top_paths=4, logits=True)}
    due = {name: call() for name, call in calls.items()}
    for kernel in kernels("ctc"):
        if kernel.op not in calls:
            continue
        monkeypatch.setattr(ctc_lower, "select", lambda *_, taken=kernel: Selection(taken, ()))
        for threads in (1, 3):
            forget()
            with thread_limit(threads), profile() as report:
                got = calls[kernel.op]()
            assert report.runs[0].plan.threads == threads
            for one, other in zip(got, due[kernel.op], strict=True):
                np.testing.assert_array_equal(one, other, strict=True)
    forget()


def test_layouts_do_not_matter_and_out_is_written():
    x = logits(7, 3, 5)
    due = popnn.ctc_beam_search_decoder(x, logits=True, top_paths=2)
    batch_first = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    out = np.zeros((3, 2), np.float16), np.zeros((3, 2), np.int32), np.zeros((3, 2, 7), np.int32)
    for same in (batch_first, np.asfortranarray(x), np.ascontiguousarray(x[::-1])[::-1]):
        for one, other in zip(popnn.ctc_beam_search_decoder(same, logits=True, top_paths=2), due, strict=True):
            np.testing.assert_array_equal(one, other)
    made = popnn.ctc_beam_search_decoder(x, logits=True, top_paths=2, out=out, out_dtype="float16")
    assert made.labels is out[2]
    np.testing.assert_array_equal(out[2], due.labels)
    np.testing.assert_array_equal(out[0], due.log_probs.astype(np.float16))


X = logits(5, 2, 4)


@pytest.mark.parametrize(("how", "error", "message"), [
    ({"beams": 0}, InvalidArgumentError, "beams: got 0"),
    ({"beams": 2, "top_paths": 3}, InvalidArgumentError, "top_paths: got 3; allowed: a whole number from 1 to 2"),
    ({"threshold": -1}, InvalidArgumentError, "threshold: got -1"),
    ({"scorer": 3}, InvalidTypeError, "scorer: got 3; allowed: a function"),
    ({"scorer": lambda prefix: np.zeros(3)}, InvalidArgumentError, r"scorer: got ndarray .* for the prefix \(\); "),
    ({"scorer": lambda prefix: [0, 1, 2, np.nan]}, InvalidArgumentError, "scorer: got"),
    ({"scorer": lambda prefix: [0, 1, 2, 128]}, InvalidArgumentError, "allowed: 4 numbers below 128"),
    ({"scorer": lambda prefix: "word"}, InvalidTypeError, r"scorer: got word for the prefix \(\)"),
    ({"data_lengths": [6, 1]}, InvalidArgumentError, "data_lengths: got a length of 6"),
    ({"blank": 4}, InvalidArgumentError, "blank: got 4"),
    ({"out_dtype": "f143"}, InvalidArgumentError, "out_dtype: got f143"),
    ({"target": "gc200", "threshold": 3.0}, UnsupportedError, "target: gc200 has no vertex"),
])
def test_what_cannot_be_is_refused_by_name(how, error, message):
    with pytest.raises(error, match=message):
        popnn.ctc_beam_search_decoder(X, **how)
    if not {"beams", "threshold", "scorer"} & how.keys():
        with pytest.raises(error, match=message):
            popnn.ctc_greedy_decoder(X, **how)


def test_what_a_scorer_raises_comes_through():
    def scorer(prefix):
        raise KeyError("word")

    with pytest.raises(KeyError, match="word"):
        popnn.ctc_beam_search_decoder(X, scorer=scorer)
