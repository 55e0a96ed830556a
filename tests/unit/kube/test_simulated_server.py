"""What a simulated cluster does with connections that are none of ours."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from argosy_kube.simulated import wire
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_testkit.cluster_contract import LAB_NODES

LENGTHS = struct.Struct("<II")
GARBAGE = {
    "a frame of gigabytes": LENGTHS.pack((1 << 32) - 1, (1 << 32) - 1),
    "no MessagePack": LENGTHS.pack(4, 0) + b"\xc1\xff\xff\xff",
    "text that is no UTF-8": LENGTHS.pack(3, 0) + b"\xa2\xff\xfe",
    "columns of no length": wire.frame(wire.Find(count=-1)),
    "fewer bytes than elements": wire.frame(wire.Find(count=1 << 40), b"abc"),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_ends_its_connection_and_nothing_else(data: bytes, tmp_path: Path) -> None:
    """A cluster whose port anybody may dial lives on, with all other connections."""
    async with (
        serve_cluster(make_host("lab", LAB_NODES, speed=50.0, flush_interval_s=0.005), f"unix:{tmp_path / 's'}"),
        asyncio.timeout(50),
    ):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        answers, bad = await asyncio.open_unix_connection(tmp_path / "s")
        bad.write(data)
        bad.write_eof()
        await bad.drain()
        await answers.read()
        writer.write(wire.frame(wire.ListNodes()))
        answer, _body = await wire.read_answer(reader)
        assert isinstance(answer, wire.Nodes)
        bad.close()
        writer.close()
