"""Asking pods what they need, over a real socket: the example, and everything that is no answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from argosy_agent.contract import PodContracts
from argosy_agent.loop import AgentLoop
from argosy_core.autoscale import Agent, AgentSettings, Amounts, next_actions
from argosy_core.autoscale.events import (
    ContractQuestion,
    Leased,
    Permit,
    PermitRequest,
    PermitsTold,
    PodSeen,
    ScalingPolicy,
    SessionUp,
)
from argosy_core.autoscale.policies import read_policy
from argosy_kube.simulated.scaler import SimulatedScaler
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS

EXAMPLE = Path(__file__).parents[3] / "examples" / "pods" / "says_what_it_needs.py"
MIB = 1 << 20


def question(port: int, proposed: Amounts = Amounts(100, 64 * MIB)) -> ContractQuestion:  # noqa: B008 - a value
    """Return a question to a pod with 1 GiB."""
    return ContractQuestion(uid="pod", number=3, port=port, size=Amounts(1000, 1024 * MIB), proposed=proposed)


def load_example() -> Any:
    """Return the example as a module."""
    spec = spec_from_file_location("says_what_it_needs", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def answering(
    respond: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A pod that reads a request and does something; gives its port and what it was sent."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"}}"))
        await respond(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def ask(port: int, timeout_s: float = 5.0, host: str = "127.0.0.1") -> Amounts | None:
    """Ask what listens on a port."""
    answered = await PodContracts(lambda _: host, timeout_s).ask(question(port))
    assert (answered.uid, answered.number) == ("pod", 3)
    return answered.needs


async def test_the_example_says_what_it_needs_until_what_is_proposed_is_enough() -> None:
    """A program under sixty lines keeps the contract."""
    example = load_example()
    needs = example.Needs()
    server = example.serve(needs, 0)
    contracts = PodContracts(lambda _: "127.0.0.1", 5.0)
    port = server.server_address[1]
    assert (await contracts.ask(question(port))).needs == Amounts(250, 256 * MIB)
    assert (await contracts.ask(question(port, Amounts(500, 512 * MIB)))).needs == Amounts(0, 0)
    needs.memory_bytes = 2048 * MIB
    assert (await contracts.ask(question(port))).needs == Amounts(250, 2048 * MIB)
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    assert len(EXAMPLE.read_text().splitlines()) < 60


class PodsOfThisMachine(SimulatedScaler):
    """Pods that listen here."""

    def contract_host(self, uid: str) -> str:
        """See Scaler."""
        return "127.0.0.1"


async def test_the_loop_puts_the_agents_questions_and_tells_it_the_answers(tmp_path: Path) -> None:
    """A pod of one unit that says that it needs three asks for them, and is counted."""
    before = METRICS.contract_answers.labels("c", "grow")._value.get()
    agent, unit, asked = Agent(), Amounts(100, 512 * MIB), asyncio.Event()
    scaler = PodsOfThisMachine(f"unix:{tmp_path}/none", installation="one", read_policy=read_policy)
    loop = AgentLoop(agent, scaler, cluster="c", settings=AgentSettings(), log=get_logger())

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(http('{"needs": {"memory_bytes": 1500000000}}'))

    class Requests:
        """Hears what is asked for."""

        def send(self, requests: Sequence[PermitRequest]) -> None:
            """Wait for three units."""
            if any(one.wanted == unit.times(3) for one in requests):
                asked.set()

    async with answering(respond) as (port, _), asyncio.timeout(50), asyncio.TaskGroup() as group:
        policy = ScalingPolicy(least=unit, most=unit.times(8), contract_port=port)
        seen = PodSeen(uid="pod", version=1, policy=policy, desired=unit, allocated=unit, actual=unit)
        loop.tell([seen, SessionUp(1)])
        next_actions(agent, elapsed_s())
        permit = Permit(uid="pod", sequence=1, amounts=unit, unit=unit)
        loop.tell([PermitsTold(1, (permit,)), Leased(1, elapsed_s() + 60.0)])
        running = group.create_task(loop.run(Requests()))
        await asked.wait()
        running.cancel()
    await scaler.close()
    assert METRICS.contract_answers.labels("c", "grow")._value.get() > before
    assert "says that it needs 3 units" in [entry.what for entry in agent.story("pod")]


def http(body: str, status: str = "200 OK", head: str = "") -> bytes:
    """Return an answer."""
    return f"HTTP/1.1 {status}\r\n{head}\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "needs"),
    [
        (http('{"needs": {"cpu_millicores": 5, "memory_bytes": 7}, "more": 1}'), Amounts(5, 7)),
        (http('{"needs": {"memory_bytes": 7}}'), Amounts(0, 7)),
        (http("{}"), Amounts(0, 0)),
        (http('{"needs": {"memory_bytes": -1}}'), None),
        (http('{"needs": {"memory_bytes": 1e30}}'), None),
        (http('{"needs": {"memory_bytes": true}}'), None),
        (http('{"needs": {"memory_bytes": 9223372036854775808}}'), None),
        (http('{"needs": {"memory_bytes": ' + "9" * 3000 + "}}"), None),
        (http('{"needs": []}'), None),
        (http("[" * 3000), None),
        (http("{}", "500 Oh"), None),
        (http("{}", "302 Found", "Location: http://127.0.0.1:1/\r\n"), None),
        (http("{}" + " " * 5000), None),
        (http("not json"), None),
        (http("\xff"), None),
        (b"SSH-2.0-OpenSSH_9\r\n", None),
        (b"", None),
    ],
)
async def test_what_a_pod_answers_is_an_amount_or_silence(answer: bytes, needs: Amounts | None) -> None:
    """Nothing that a pod sends raises, is followed or is read beyond 4 KiB."""

    async def respond(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with answering(respond) as (port, heard):
        assert await ask(port) == needs
    assert len(heard) == 1
    assert heard[0].startswith(b"POST /argosy/size HTTP/1.0\r\nHost: 127.0.0.1:")


async def test_a_pod_that_hangs_or_is_not_there_is_silent_and_holds_nobody_up() -> None:
    """One that says nothing, one that never ends, one where nothing listens, and one without an address."""
    release = asyncio.Event()

    async def hang(_: asyncio.StreamWriter) -> None:
        await release.wait()

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * (1 << 20))
        await release.wait()

    async with answering(hang) as (port, _), answering(flood) as (flooding, _):
        assert await ask(port, timeout_s=0.02) is None
        async with asyncio.timeout(20):
            assert await ask(flooding, timeout_s=600.0) is None
        assert await ask(port, host="") is None
        release.set()
    assert await ask(port) is None
