"""How much of a cluster's GPUs is given out when more are asked for than there are: the openb trace.

Prints one JSON document. Pods of the trace are drawn with replacement until they ask for 130 % of the GPUs, arrive in
batches and never end. The rounds are the leader's own, with a real sampler and MultiBind behind them; `first_fit` is a
loop that gives each pod to the first node, in the trace's order, that has room, which is what ours is compared with.

GPUs are whole devices (`devices`: a pod that asks for a part of one has one) or plain quantities (`quantities`:
thousandths, of all GPUs of a node together). Models of GPUs that pods name are left out in both.

Usage: python tests/benchmarks/gpu_allocation.py FOLDER_OF_TRACES [--seed 1] [--score NAME,...] [--models NAME,...]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld

MIB = 1 << 20
NAMES = ("cpu", "memory", "gpu")
BATCH, OVER = 100, 1.3
IDLE_ROUNDS = 5


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a compressed table."""
    with gzip.open(path, "rt") as file:
        yield from csv.DictReader(file)


def amounts_of(row: dict[str, str], gpus: int) -> list[int]:
    """Return cores, memory and GPUs of a row, in base units."""
    return [int(row["cpu_milli"]), int(row["memory_mib"]) * MIB, gpus]


def read(folder: Path, model: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what (n, 3) nodes have and (m, 3) arrivals ask for."""
    unit = 1 if model == "devices" else 1000
    nodes = [amounts_of(row, int(row["gpu"]) * unit) for row in rows_of(folder / "openb_node_list_gpu_node.csv.gz")]
    pods = []
    for row in rows_of(folder / "openb_pod_list_default.csv.gz"):
        count = int(row["num_gpu"])
        parts = int(row["gpu_milli"]) if count == 1 else count * 1000
        pods.append(amounts_of(row, count if model == "devices" else parts * (count > 0)))
    has, drawn = np.array(nodes), np.array(pods)
    drawn = drawn[np.random.default_rng(seed).integers(0, len(drawn), 4 * len(drawn))]
    return has, drawn[: int(np.argmax(np.cumsum(drawn[:, 2]) >= OVER * has[:, 2].sum())) + 1]


def first_fit(has: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return what is left on each node when each pod goes to the first one with room."""
    free = has.copy()
    for one in asked:
        fits = (free >= one).all(axis=1)
        node = int(np.argmax(fits))
        if fits[node]:
            free[node] -= one
    return free


def place(has: np.ndarray, asked: np.ndarray, score: str) -> np.ndarray:
    """Return what is left on each node when a leader places the pods, and nothing ends."""
    world = LeaderWorld(
        clusters={"a": 0}, settings=RoundSettings(node_score=score, non_preemptible_excess_ratio=1e9, waiting_heads=1)
    )
    world.check = lambda: None  # type: ignore[method-assign]  # looks at every job after each step
    specs = [
        NodeSpec(
            name=f"n{row:04}",
            total=dict(zip(NAMES, one, strict=True) if one[2] else zip(NAMES[:2], one[:2], strict=True)),
        )
        for row, one in enumerate(has.tolist())
    ]
    world.clusters["a"].specs = specs
    world.clusters["a"].ledger.put_nodes(specs)
    world.send_capacity("a")
    kinds, which = np.unique(asked, axis=0, return_inverse=True)
    for class_id, one in enumerate(kinds.tolist(), 1):
        world.define_class(class_id, **{name: amount for name, amount in zip(NAMES, one, strict=True) if amount})
    which = which.reshape(-1)
    for begin in range(0, which.size, BATCH):
        batch = which[begin : begin + BATCH].tolist()  # in the order of arrival, as the first fit has them
        rows = np.concatenate([world.grow(1, class_id=class_id + 1) for class_id in batch])
        world.store.submit(world.store.next_change_id(), rows, round(world.now_s * 1e6))
        world.take()
        world.now_s += 1.0
        world.round()
    idle = 0
    while idle < IDLE_ROUNDS:  # what waits is asked for again after a while
        world.now_s += 30.0
        idle = 0 if world.round().handle.size else idle + 1
    table = world.clusters["a"].ledger.nodes
    rows = [table.axis.index(name) for name in NAMES]
    return np.asarray(table.free[rows].T)


def told(has: np.ndarray, free: np.ndarray) -> dict[str, float]:
    """Return the parts in use, in percent."""
    used = 100 * (1 - free.sum(axis=0) / has.sum(axis=0))
    return {name: round(float(part), 2) for name, part in zip(NAMES, used, strict=True)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--score", default=",fewest-nodes,lost-opportunity,alignment")
    parser.add_argument("--models", default="devices,quantities")
    chosen = parser.parse_args()
    figures = {}
    for model in chosen.models.split(","):
        has, asked = read(chosen.traces, model, chosen.seed)
        of_model = {"pods": len(asked), "first_fit": told(has, first_fit(has, asked))}
        for score in chosen.score.split(","):
            of_model[score or "as samplers are set up"] = told(has, place(has, asked, score))
        figures[model] = of_model
    print(json.dumps(figures, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
