"""ResNet-50, whole, with random weights: forward and one training step, on this CPU and on modelled machines.

``python bench/resnet50_step.py [--target host gc200] [--batch 4] [--dtype float16] [--report FOLDER]`` runs each
machine in turn and prints seconds here, the machine's own where it is modelled, and which operations take most. With
``--report`` it writes each machine's page. `resnet50.py` has the convolutions alone, with their ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import poplibs_py
from poplibs_py import poplin, popnn, popops
from poplibs_py.formats import format_of

Array = np.ndarray[Any, Any]

CLASSES, SIDE, RATE = 1000, 224, 0.01
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Channels inside the blocks of each stage, and how many blocks it has."""


@dataclass(frozen=True)
class Convolution:
    """A convolution, the batch norm behind it, and whether a ReLU comes next."""

    name: str
    read: int
    made: int
    kernel: int
    stride: int = 1
    relu: bool = True

    @property
    def how(self) -> dict[str, int]:
        """Keywords of the convolution."""
        return {"stride": self.stride, "padding": self.kernel // 2}


@dataclass(frozen=True)
class Block:
    """Three convolutions beside the way past them, which has one of its own where the shape changes."""

    inside: tuple[Convolution, ...]
    past: Convolution | None


STEM = Convolution("stem", 3, 64, 7, 2)


def blocks() -> Iterator[Block]:
    """The blocks from the input on; a stage but the first strides in its first 3x3."""
    read = 64
    for stage, (inner, count) in enumerate(STAGES):
        for i in range(count):
            name, stride = f"{stage}.{i}", 2 if stage and not i else 1
            inside = (Convolution(f"{name}.a", read, inner, 1), Convolution(f"{name}.b", inner, inner, 3, stride),
                      Convolution(f"{name}.c", inner, 4 * inner, 1, relu=False))
            past = None if i else Convolution(f"{name}.past", read, 4 * inner, 1, stride, relu=False)
            yield Block(inside, past)
            read = 4 * inner


class ResNet50:
    """The network's parameters, and its passes."""

    def __init__(self, dtype: Any, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.blocks = list(blocks())
        self.net: dict[str, Array] = {}
        for conv in [STEM, *(c for b in self.blocks for c in (*b.inside, *((b.past,) if b.past else ())))]:
            shape = conv.made, conv.read, conv.kernel, conv.kernel
            scale = np.sqrt(2 / (conv.read * conv.kernel**2))
            self.net[conv.name] = (scale * rng.standard_normal(shape, np.float32)).astype(dtype)
            last = conv.name.endswith(".c")  # so that each block begins as what goes past it, nearly
            self.net[f"{conv.name}.gamma"] = np.full(conv.made, 0.2 if last else 1.0).astype(dtype)
            self.net[f"{conv.name}.beta"] = np.zeros(conv.made, dtype)
        features = 4 * STAGES[-1][0]
        self.net["dense"] = (0.02 * rng.standard_normal((CLASSES, features), np.float32)).astype(dtype)
        self.net["dense.bias"] = np.zeros(CLASSES, dtype)

    def _run(self, conv: Convolution, x: Array, kept: dict[str, Any]) -> Array:
        c = poplin.convolution(x, self.net[conv.name], **conv.how)
        b = popnn.batch_norm(c, self.net[f"{conv.name}.gamma"], self.net[f"{conv.name}.beta"])
        kept[conv.name] = x, c, b
        return popnn.relu(b) if conv.relu else b

    def _back(self, conv: Convolution, grad: Array, kept: dict[str, Any], grads: dict[str, Array], *,
              first: bool = False) -> Array:
        x, c, b = kept[conv.name]
        if conv.relu:
            grad = popnn.relu_grad(grad, b)
        grad, *of_norm = popnn.batch_norm_grad(grad, c, self.net[f"{conv.name}.gamma"])
        grads[f"{conv.name}.gamma"], grads[f"{conv.name}.beta"] = of_norm
        side = (conv.kernel, conv.kernel)
        grads[conv.name] = poplin.calculate_weight_deltas(grad, x, kernel_shape=side, **conv.how)
        if first:
            return grad
        return poplin.convolution_input_gradient(grad, self.net[conv.name], field_shape=x.shape[2:], **conv.how)

    def forward(self, images: Array, kept: dict[str, Any]) -> Array:
        """Return the logits; `kept` receives what gradients read."""
        stem = self._run(STEM, images, kept)
        x = popnn.pool(stem, 3, stride=2, padding=1)
        kept["pool"] = stem, x
        for number, block in enumerate(self.blocks):
            past = x if block.past is None else self._run(block.past, x, kept)
            for conv in block.inside:
                x = self._run(conv, x, kept)
            total = popops.add(x, past)
            kept[f"sum{number}"] = total
            x = popnn.relu(total)
        kept["last"] = x
        kept["features"] = features = popnn.pool(x, op="avg").reshape(len(images), -1)
        return poplin.matmul(features, self.net["dense"].T, bias=self.net["dense.bias"])

    def gradients(self, images: Array, labels: Array) -> tuple[Array, dict[str, Array]]:
        """Return the losses, and the gradients of their mean."""
        kept: dict[str, Any] = {}
        shares = popnn.softmax(self.forward(images, kept))
        loss, deltas = popnn.calc_loss(shares, labels, "CROSS_ENTROPY_LOSS", deltas_scale=1 / len(images))
        grads = {"dense": poplin.matmul(deltas.T, kept["features"]), "dense.bias": popops.sum(deltas, 0)}
        last = kept["last"]
        grad = poplin.matmul(deltas, self.net["dense"])[:, :, None, None]
        grad = popnn.pool_input_gradient(grad, last.shape, op="avg")
        for number, block in reversed(list(enumerate(self.blocks))):
            grad = popnn.relu_grad(grad, kept[f"sum{number}"])
            past = grad if block.past is None else self._back(block.past, grad, kept, grads)
            for conv in reversed(block.inside):
                grad = self._back(conv, grad, kept, grads)
            grad = popops.add(grad, past)
        stem, pooled = kept["pool"]
        grad = popnn.pool_input_gradient(grad, stem.shape, 3, x=stem, pooled_x=pooled, stride=2, padding=1)
        self._back(STEM, grad, kept, grads, first=True)
        return loss, grads

    def step(self, images: Array, labels: Array) -> Array:
        """Train on a batch, and return its losses."""
        loss, grads = self.gradients(images, labels)
        for name, grad in grads.items():
            popops.scaled_subtract(self.net[name], grad, RATE, out=self.net[name])
        return loss


def measured(target: str, batch: int, dtype: Any) -> tuple[poplibs_py.Profile, list[float], Array]:
    """Run a forward pass and a step on a machine; return the report, seconds of both, and the losses."""
    rng = np.random.default_rng(1)
    images = rng.standard_normal((batch, 3, SIDE, SIDE), np.float32).astype(dtype)
    labels = rng.integers(0, CLASSES, batch).astype(np.int32)
    network, seconds = ResNet50(dtype), []
    with poplibs_py.profile(target=None if target == "host" else target) as report:
        for run in (lambda: network.forward(images, {}), lambda: network.step(images, labels)):
            began = perf_counter()
            loss = run()
            seconds.append(perf_counter() - began)
    return report, seconds, loss


def told(target: str, report: poplibs_py.Profile, seconds: Sequence[float], loss: Array) -> None:
    """Print what a machine took."""
    print(f"\n{target}: forward {seconds[0]:.1f} s, training step {seconds[1]:.1f} s here, with planning; "
          f"mean loss {float(loss.astype(np.float32).mean()):.2f}")
    if report.target is not None:
        modelled = [run for run in report.runs if not run.lacking]
        cycles = sum(run.plan.cycles for run in modelled)
        print(f"{len(modelled)} of {len(report.runs)} operations on {target}: {cycles:,} cycles")
        for why in sorted({run.lacking for run in report.runs if run.lacking}):
            print(f"  here: {why}")
    print(report.summary())


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", nargs="+", default=["host", "gc200"], help="machines (default: host gc200)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dtype", default="float16", help="of all numbers (default: %(default)s)")
    parser.add_argument("--report", metavar="FOLDER", type=Path, help="where pages go")
    arguments = parser.parse_args()
    for target in arguments.target:
        report, seconds, loss = measured(target, arguments.batch, format_of(arguments.dtype).dtype)
        told(target, report, seconds, loss)
        if arguments.report:
            arguments.report.mkdir(parents=True, exist_ok=True)
            path = arguments.report / f"resnet50-step-{target}.html"
            report.save(path)
            print(f"report in {path}")


if __name__ == "__main__":
    main()
