"""Plans of `cost-golden`: embeddings, pooling, recurrent layers and CTC."""

from __future__ import annotations

from poplibs_py.planner import Memory
from poplibs_py.popnn.pooling.params import PoolParams
from poplibs_py.popnn.pooling.plan import planned as planned_pooling
from poplibs_py.popops.embedding.options import EmbeddingOptions
from poplibs_py.popops.embedding.params import EmbeddingParams
from poplibs_py.popops.embedding.plan import planned as planned_embedding

from .costs import GC200, flag, not_built, numbers, spec, typed
from .families import Line

PROPORTION = "0.6"
"""PopLibs' own, where a specification names none."""


def slices(case: Line) -> None:
    """The plan of an embedding, to the field."""
    words, fields = spec(case), case.fields
    machine = GC200.replace(tiles=int(words.pop("tiles", "1472")))
    params = EmbeddingParams(typed(words.pop("type")), int(words.pop("entries")), int(words.pop("width")),
                             tuple(numbers(words.pop("lookups"))), int(words.pop("groups", "1")))
    options = EmbeddingOptions(
        Memory(float(words.pop("amp", PROPORTION))), words.pop("slice", "1") == "1", words.pop("update", "1") == "1",
        words.pop("op", "add").upper(), words.pop("partial", ""), words.pop("dist", "uniform") == "onePoint",
        flag(words, "sorted"))
    assert not words
    plan = planned_embedding(params, options, machine)
    at = plan.partition
    assert {"precopy": at.precopy, "lookupSerial": at.serial, "lookupParallel": at.parallel, "sliced": at.sliced,
            "unsliced": at.unsliced, "group": at.group, "grain": plan.grain} == fields["partition"]
    assert (plan.ordered, plan.start_tile) == (fields["sortedPlan"], fields["startTile"])
    assert plan.within_limit == (not fields["fallback"])
    assert dict(plan.costs) == fields["cost"]


def extents(word: str) -> tuple[int, ...]:
    """A shape as specifications have it."""
    return tuple(int(n) for n in word.split("x"))


def pooling(case: Line) -> None:
    """The plan of a pooling."""
    words, fields = spec(case), case.fields
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    first, second = extents(words.pop("det"))
    params = PoolParams(
        words.pop("op"), words.pop("pass"), extents(words.pop("field")), extents(words.pop("kernel")),
        extents(words.pop("stride")), extents(words.pop("padL")), extents(words.pop("padU")), int(words.pop("chans")),
        int(words.pop("batch")), words.pop("dtype"))
    assert not words
    if fields["flatten"]:
        not_built("pooling of fewer channels than a load has")
    plan = planned_pooling(params, machine, (first, second))
    at, (batch, field, channels) = plan.partition, plan.planned
    assert (plan.cycles, plan.grouped) == (fields["cycles"], bool(fields["grouped"]))
    assert {"field": list(at.field), "batch": at.batch, "chanGroups": at.groups,
            "chansPerGroup": at.per_group} == fields["partition"]
    assert {"batch": batch, "field": list(field), "chans": channels} == fields["planned"]
