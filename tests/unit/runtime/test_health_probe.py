"""The probe of container engines, against servers of ours and against what is none."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from argosy_local.processes import free_ports
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.health_probe import is_serving, main, takes_connections


def run_probe(address: str) -> subprocess.CompletedProcess[str]:
    """Run the probe as an engine does."""
    program = [sys.executable, "-m", "argosy_runtime.health_probe", address]
    return subprocess.run(program, capture_output=True, text=True, timeout=20, check=False)


@contextmanager
def talker(answer: bytes) -> Iterator[str]:
    """A server that says the same to everybody and hangs up; yields its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # the probe may have heard enough before we have said all
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.fixture
def closed_port() -> str:
    """An address nobody listens at."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize(("health", "code"), [("serving", 0), ("not serving", 1)])
async def test_probe_answers_as_the_server_says(health: str, code: int) -> None:
    """The exit code is what the server's health is."""
    serving = health == "serving"
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
    await server.start(serving=serving)
    try:
        assert await asyncio.to_thread(is_serving, server.address) is serving
        done = await asyncio.to_thread(run_probe, server.address)
    finally:
        await server.stop(0)
    assert done.returncode == code
    assert ("does not serve" in done.stderr) is not serving


def test_probe_fails_where_nobody_listens(closed_port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A dead service is unhealthy, and the probe says whom it asked."""
    assert main([closed_port]) == 1
    assert main([f"tcp:{closed_port}"]) == 1
    assert closed_port in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes.fromhex("000000040000000000") + bytes.fromhex("000008070000000000") + bytes(8),
        bytes.fromhex("000004030000000001") + bytes(4),
        b"x" * 100_000,
    ],
    ids=["hangs up", "other protocol", "goaway", "reset", "endless"],
)
def test_probe_refuses_what_is_no_health_answer(answer: bytes) -> None:
    """Whatever else answers at the port does not serve."""
    with talker(answer) as address, suppress(OSError):  # it hung up on what we said
        assert not is_serving(address)


def test_probe_reads_an_answer_in_a_padded_frame() -> None:
    """Padding is legal and not part of the message."""
    message = b"\x00\x00\x00\x00\x02\x08\x01"
    payload = bytes((3,)) + message + bytes(3)
    frame = len(payload).to_bytes(3, "big") + bytes((0, 0x8)) + (1).to_bytes(4, "big") + payload
    with talker(frame) as address:
        assert is_serving(address)


def test_probe_of_a_plain_port_needs_a_connection_only() -> None:
    """Simulated clusters speak a protocol of their own."""
    with talker(b"") as address:
        assert takes_connections(address)


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["nonsense"], ["host:port"]])
def test_probe_asked_wrongly_ends_with_2(arguments: list[str]) -> None:
    """A mistake in a manifest is told apart from an ill service."""
    assert main(arguments) == 2
