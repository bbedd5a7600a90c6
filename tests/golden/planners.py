"""Plans of `cost-golden`: embeddings, pooling, recurrent layers and CTC."""

from __future__ import annotations

import pytest

from poplibs_py.errors import MemoryLimitError
from poplibs_py.planner import Memory
from poplibs_py.popnn.ctc.params import LossParams
from poplibs_py.popnn.ctc.plan import planned_loss
from poplibs_py.popnn.ctc_infer.params import InferenceParams
from poplibs_py.popnn.ctc_infer.plan import planned_inference
from poplibs_py.popnn.pooling.params import PoolParams
from poplibs_py.popnn.pooling.plan import planned as planned_pooling
from poplibs_py.popnn.recurrent.cell import LSTM
from poplibs_py.popnn.recurrent.sharding import sharded
from poplibs_py.popops.slices.embedding.options import EmbeddingOptions
from poplibs_py.popops.slices.embedding.params import EmbeddingParams
from poplibs_py.popops.slices.embedding.plan import planned as planned_embedding
from poplibs_py.target import Target

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
        float(words.pop("amp", PROPORTION)), words.pop("slice", "1") == "1", words.pop("update", "1") == "1",
        words.pop("op", "add"), words.pop("partial", ""), words.pop("dist", "uniform"), flag(words, "sorted"))
    assert not words
    plan = planned_embedding(params, options, machine)
    at = plan.partition
    assert {"precopy": at.precopy, "lookupSerial": at.serial, "lookupParallel": at.parallel, "sliced": at.sliced,
            "unsliced": at.unsliced, "group": at.group, "grain": plan.grain} == fields["partition"]
    assert (plan.ordered, plan.start_tile) == (fields["sortedPlan"], fields["startTile"])
    assert plan.fits == (not fields["fallback"])
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


def sharding(case: Line) -> None:
    """How an LSTM's steps are dealt out."""
    words, fields = spec(case), case.fields
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    data_type, sizes = typed(words.pop("type")), [int(words.pop(name)) for name in ("batch", "time", "in", "out")]
    saved = LSTM.kept["cell_and_tanh" if flag(words, "recomp") else "none"] + flag(words, "last")
    assert not words
    found = sharded(machine, data_type, *sizes, saved)
    assert (found.shards, found.most_shards) == (fields["numShards"], fields["maxShards"])
    assert (found.input_bytes, found.output_bytes) == (fields["inputBytesPerTile"], fields["outputBytesPerTile"])
    assert found.shard_tiles == fields["tilesPerShard"]


def ctc(case: Line) -> None:
    """The plan of a CTC loss, or of a search."""
    words = spec(case)
    machine = GC200.replace(tiles=int(words.pop("tiles")))
    {"loss": _loss, "infer": _inference}[words.pop("kind")](words, case, machine)
    assert not words


def _loss(words: dict[str, str], case: Line, machine: Target) -> None:
    fields = case.fields
    params = LossParams(*(int(words.pop(name)) for name in ("batch", "time", "label", "classes")), words.pop("type"),
                        words.pop("partials"), flag(words, "reduced"))
    memory = Memory(float(words.pop("amp", PROPORTION)))
    if "error" in fields:
        with pytest.raises(MemoryLimitError, match="available_memory_proportion"):
            planned_loss(params, machine, memory)
        return
    plan = planned_loss(params, machine, memory)
    at = plan.split
    assert (at.batch, at.time, at.labels) == (fields["batch"], fields["time"], fields["label"])
    assert (at.last, plan.tiles_used) == (fields["lastBlankOnSeparateTile"], fields["tiles"])
    assert dict(plan.costs) == fields["cycles"]
    assert dict(plan.sizes) == fields["tempBytes"]


def _inference(words: dict[str, str], case: Line, machine: Target) -> None:
    fields = {name: value for name, value in case.fields.items() if name != "spec"}
    words.pop("time")
    params = InferenceParams(*(int(words.pop(name)) for name in ("batch", "classes", "beam")))
    plan = planned_inference(params, machine)
    sort = [{"groups": s.groups, "groupsPerTile": s.groups_of_tile, "rank": s.rank, "reduce": s.reduce}
            for s in plan.sort]
    assert fields == {
        "batch": plan.batch, "extend": plan.extend, "extendVertices": plan.extend_vertices, "sort": sort,
        "tilesPerBatchEntry": plan.tiles_of_entry, "tiles": plan.tiles_used,
    } | dict.fromkeys(("copy", "merge", "selectCopy", "selectExtend", "output"), plan.beams)
