"""`python -m argosy_kube.simulated`: one simulated cluster as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import numpy as np

from argosy_core.errors import ArgosyError
from argosy_kube.port import NodeDescription
from argosy_kube.simulated.engine import ClusterEngine
from argosy_kube.simulated.host import ClusterHost, wall_clock
from argosy_kube.simulated.inventory import make_nodes, parse_nodes
from argosy_kube.simulated.node_kinds import parse_node_kinds
from argosy_kube.simulated.server import serve_cluster

__all__ = ["main", "make_host"]


def make_host(
    name: str, nodes: Sequence[NodeDescription], *, speed: float = 1.0, seed: int = 0, flush_interval_s: float = 0.05
) -> ClusterHost:
    """Return a simulated cluster on the wall clock.

    Args:
        name: Name of the cluster; its uid is the same for the same name.
        nodes: Its nodes.
        speed: Simulated seconds per real second.
        seed: Draws run times.
        flush_interval_s: How long events gather before watchers see them.
    """
    clock = wall_clock()
    start_us = clock()
    # The start is part of the seed of uids only through the drawn prefix: a restarted cluster has other pods.
    rng = np.random.default_rng([seed, start_us])
    uid = str(uuid5(NAMESPACE_DNS, f"{name}.simulated.argosy.dev"))
    engine = ClusterEngine(uid=uid, start_us=start_us, speed=speed, rng=rng)
    for node in nodes:
        engine.put_node(node)
    return ClusterHost(engine, clock=clock, flush_interval_s=flush_interval_s)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="argosy-simcluster", description="Run one simulated cluster until stopped.")
    parser.add_argument("--name", required=True, help="name of the cluster")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--nodes", type=Path, help="node file (JSON)")
    source.add_argument("--kinds", metavar="COUNT:RES=QTY,...;...", help="kinds of nodes, as 25:cpu=32,memory=128Gi")
    parser.add_argument("--listen", required=True, help="HOST:PORT (port 0: any) or unix:PATH")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per real second (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="draws run times (default 0)")
    parser.add_argument("--flush-ms", type=float, default=100.0, help="how long events gather (default 100)")
    return parser


async def _serve(host: ClusterHost, address: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve_cluster(host, address) as listening:
        sys.stdout.write(f"listening on {listening}\n")
        sys.stdout.flush()
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a simulated cluster until SIGTERM or SIGINT; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not 0 < options.speed <= 1e6 or not 1 <= options.flush_ms <= 10_000:
        parser.error("--speed must be above 0 and at most 1000000, --flush-ms between 1 and 10000")
    if options.seed < 0:
        parser.error("--seed must be 0 or more")
    try:
        if options.nodes is not None:
            nodes = parse_nodes(options.nodes.read_bytes())
        else:
            nodes = make_nodes(options.name, parse_node_kinds(options.kinds))
        host = make_host(
            options.name, nodes, speed=options.speed, seed=options.seed, flush_interval_s=options.flush_ms / 1000
        )
        asyncio.run(_serve(host, options.listen))
    except (ArgosyError, OSError) as error:
        sys.stderr.write(f"argosy-simcluster: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
