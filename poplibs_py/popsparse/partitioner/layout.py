"""What buckets hold and how a matrix is cut among them: what PopLibs' partitioner is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...checks import flag, instance, one_of, whole
from ...errors import bad_argument
from ...formats import Array

Starts = tuple[int, ...]

_MOST = 2**31 - 1
_MOST_BUCKETS = 1 << 20
_FLAGS = ("grad_a", "grad_w", "shared_buckets", "optimise_for_speed", "force_bucket_spills",
          "use_actual_worker_split_costs")


@dataclasses.dataclass(frozen=True)
class BucketLayout:
    """Parts of the product Q = R S, R sparse [x, y], S dense [y, z], and R's buckets. PopLibs' ``PartitionerImpl``.

    Parameters
    ----------
    shape : (int, int, int)
        x, y and z, in elements.
    x_starts, y_starts, z_starts : tuple of int
        Where the parts of each begin, ascending from 0; those of x and y multiples of `side`.
    value_room : int
        Values that a bucket has room for.
    meta_room, grad_a_meta_room : int
        Words of meta-information, for the forward pass and, where it has words of its own, for the gradient of the
        activations.
    side : int
        Of the square blocks that buckets hold.
    z_grain : int
        Columns of S that vertices take together.
    data_type : str
        ``"half"`` or ``"float"``: what offsets are multiplied by.
    grad_a, grad_w, shared_buckets : bool
        Whether there is a gradient of the activations and of the weights, and whether the former reads the forward
        pass' words.
    optimise_for_speed, force_bucket_spills, use_actual_worker_split_costs : bool
        PopLibs' options: look for room where the bucket comes by first, or where there is most; spill everything, as
        far as can be, for tests; count the words of the workers there are, not of all.
    workers : int
        Of a tile.

    Examples
    --------
    >>> from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
    >>> layout = plan_fully_connected(FullyConnectedParams(1024, 1024, 64, 0.1, side=16)).layout
    >>> layout.buckets, layout.value_room, layout.meta_room
    (1408, 256, 20)
    """

    shape: tuple[int, int, int]
    x_starts: Starts
    y_starts: Starts
    z_starts: Starts
    value_room: int
    meta_room: int
    grad_a_meta_room: int = 0
    side: int = 1
    z_grain: int = 1
    data_type: str = "half"
    grad_a: bool = False
    grad_w: bool = False
    shared_buckets: bool = True
    optimise_for_speed: bool = True
    force_bucket_spills: bool = False
    use_actual_worker_split_costs: bool = False
    workers: int = 6

    def __post_init__(self) -> None:
        instance("shape", self.shape, tuple, "three numbers")
        if len(self.shape) != 3:
            raise bad_argument("shape", self.shape, "three numbers")
        for name, value, least, most in (("value_room", self.value_room, 0, _MOST), ("side", self.side, 1, 2**15),
                                         ("meta_room", self.meta_room, 1, _MOST), ("workers", self.workers, 1, 256),
                                         ("grad_a_meta_room", self.grad_a_meta_room, 0, _MOST),
                                         ("z_grain", self.z_grain, 1, _MOST)):
            object.__setattr__(self, name, whole(name, value, least, most))
        one_of("data_type", self.data_type, ("half", "float"))
        for name in _FLAGS:
            flag(name, getattr(self, name))
        for name, starts, size, grain in (("x_starts", self.x_starts, self.shape[0], self.side),
                                          ("y_starts", self.y_starts, self.shape[1], self.side),
                                          ("z_starts", self.z_starts, self.shape[2], 1)):
            whole("shape", size, 1, _MOST)
            ascends = all(a < b for a, b in zip(starts, (*starts[1:], size), strict=True))
            if not starts or starts[0] != 0 or not ascends or any(s % grain for s in (*starts, size)):
                raise bad_argument(name, starts, f"starts that ascend from 0 to below {size}, multiples of {grain}")
        if self.buckets > _MOST_BUCKETS:
            raise bad_argument("x_starts", f"{self.buckets} buckets in all", f"at most {_MOST_BUCKETS}")

    @property
    def parts(self) -> tuple[int, int, int]:
        """Parts of x, y and z."""
        return len(self.x_starts), len(self.y_starts), len(self.z_starts)

    @property
    def buckets(self) -> int:
        """Buckets: one for each part. Bucket ``(x * parts of y + y) * parts of z + z`` is that of part x, y, z."""
        x, y, z = self.parts
        return x * y * z

    @property
    def block_room(self) -> int:
        """Blocks that a bucket has room for."""
        return self.value_room // self.side**2

    @property
    def own_grad_a_room(self) -> int:
        """Words of the gradient of the activations where it does not read the forward pass'."""
        return self.grad_a_meta_room if self.grad_a and not self.shared_buckets else 0

    @property
    def overflow_words(self) -> int:
        """Words before the buckets: how far they travel."""
        return 3 + -(-self.parts[0] // 2)

    def edges(self) -> tuple[Array, Array, Array]:
        """Where parts begin, and the last ends."""
        ends = zip((self.x_starts, self.y_starts, self.z_starts), self.shape, strict=True)
        x, y, z = (np.array([*starts, size], np.int64) for starts, size in ends)
        return x, y, z

    def fields(self) -> dict[str, Any]:
        """What the compiled partitioner is told."""
        x, y, z = self.parts
        return {
            "parts_x": x, "parts_y": y, "parts_z": z, "buckets_per_z": 1, "z": self.shape[2], "z_grain": self.z_grain,
            "side": self.side, "workers": self.workers, "meta_room": self.meta_room, "value_room": self.block_room,
            "grad_a_meta_room": self.own_grad_a_room, "blocks": self.side > 1, "updates": self.grad_w,
            "is_float": self.data_type == "float", "for_speed": self.optimise_for_speed,
            "spills": self.force_bucket_spills, "actual": self.use_actual_worker_split_costs,
        }  # fmt: skip
