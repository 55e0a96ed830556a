"""Prints, as JSON, what it costs a server to learn who calls: by static token, by token of an issuer, by certificate.

Usage: python tests/benchmarks/logins.py [LOGINS]

A login is a connection of its own over TLS and its first call, each time with a token that the server has not seen,
or with the caller's certificate; `none` is the same with a method that asks nobody. Then as many calls follow on one
connection with one credential. Counted is the processor time of the server's process; clients and issuer have another.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy.channel_credentials import ChannelCredentials, hash_token, open_aio_channel
from argosy_core.access import ANYONE, Permissions, Principal
from argosy_runtime.access.guard import CALLER, CallerSettings, Guard, OidcSettings
from argosy_runtime.access.oidc import OidcTokens
from argosy_runtime.access.quotas import QuotaSettings
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_testkit.fake_issuer import CLIENT_ID, FakeIssuer

CERTIFICATES = Path(__file__).resolve().parents[1] / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")
WHO = "/argosy.api.v1.AccessService/WhoAmI"
Process = subprocess.Popen[str]  # blocking, since nothing else goes on here while it is waited for
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
UNBOUNDED = QuotaSettings(calls_per_s=0.0, bytes_per_s=0.0, answer_bytes_per_s=0.0)


class WhoAmI(access_pb2_grpc.AccessServiceServicer):
    """Answers who calls."""

    async def WhoAmI(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer the caller's name."""
        return access_pb2.WhoAmIResponse(name=CALLER.get().principal.name)


async def serve(tokens_file: str, issuer: str) -> None:
    """Serve both ports, and tell the processor time that was used whenever a line comes in."""

    async def nothing(_: Principal) -> Permissions:
        return Permissions()

    oidc = OidcTokens(OidcSettings(issuer=issuer, audiences=(CLIENT_ID,), authority_file=AUTHORITY))
    guard = Guard(
        CallerSettings(tokens_file=tokens_file, quotas=UNBOUNDED),
        rules={WHO: ANYONE},
        permissions_of=nothing,
        authenticators=[oidc.find],
    )
    settings = GrpcSettings(
        listen="127.0.0.1:0",
        mutual_listen="127.0.0.1:0",
        certificate_file=str(CERTIFICATES / "server.pem"),
        key_file=str(CERTIFICATES / "server.key"),
        client_authority_file=AUTHORITY,
        calls_per_s=0.0,
    )
    server = GrpcServer(settings, guard=guard)
    server.add(access_pb2_grpc.add_AccessServiceServicer_to_server, WhoAmI(), "argosy.api.v1.AccessService")
    await server.start()
    print(server.address, server.mutual_address, flush=True)  # noqa: T201 - for the other process
    while await asyncio.to_thread(sys.stdin.readline):
        print(time.process_time(), flush=True)  # noqa: T201 - likewise
    await server.stop(0)


async def call(channel: Any, token: str, *, asks: bool) -> str:
    """Return as whom a server knows the caller; nobody where it does not ask."""
    if not asks:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        return ""
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    answer = await access_pb2_grpc.AccessServiceStub(channel).WhoAmI(
        access_pb2.WhoAmIRequest(), metadata=metadata, timeout=10
    )
    return str(answer.name)


async def measure(
    server: Process, address: str, credentials: ChannelCredentials, *, tokens: Sequence[str], expected: str
) -> dict[str, float]:
    """Return logins, and calls on one connection, for a second of the server's processor."""
    spent = []

    def note() -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n")
        server.stdin.flush()
        spent.append(float(server.stdout.readline()))

    asks = bool(expected)
    note()
    for token in tokens:
        async with open_aio_channel(address, credentials, OPTIONS) as channel:
            assert await call(channel, token, asks=asks) == expected
    note()
    async with open_aio_channel(address, credentials, OPTIONS) as channel:
        for _ in tokens:
            assert await call(channel, tokens[0], asks=asks) == expected
    note()
    count = len(tokens)
    return {
        "logins_per_cpu_s": round(count / (spent[1] - spent[0])),
        "cpu_us_per_login": round(1e6 * (spent[1] - spent[0]) / count),
        "calls_per_cpu_s": round(count / (spent[2] - spent[1])),
        "cpu_us_per_call": round(1e6 * (spent[2] - spent[1]) / count),
    }


async def run(count: int) -> dict[str, Any]:
    """Measure each way in turn, twice, and keep the cheaper turn of each."""
    plain = ChannelCredentials(authority_file=AUTHORITY)
    held = replace(plain, certificate_file=str(CERTIFICATES / "alice.pem"), key_file=str(CERTIFICATES / "alice.key"))
    static = [f"argosy_static-{number}" for number in range(2 * count)]
    found: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        FakeIssuer(CERTIFICATES / "server.pem", CERTIFICATES / "server.key") as issuer,
    ):
        file = Path(folder) / "tokens.yaml"
        entries = [{"name": "alice", "sha256": hash_token(token)} for token in static]
        file.write_text(yaml.safe_dump({"tokens": entries}), encoding="utf-8")
        drawn = [issuer.token(jti=str(number)) for number in range(2 * count)]
        command = [sys.executable, __file__, "--serve", str(file), issuer.url]
        with Process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address, mutual = server.stdout.readline().split()
            for turn in range(2):
                part = slice(turn * count, (turn + 1) * count)
                for name, to, credentials, tokens, expected in (
                    ("none", address, plain, [""] * count, ""),
                    ("static token", address, plain, static[part], "alice"),
                    ("token of an issuer", address, plain, drawn[part], "alice"),
                    ("certificate", mutual, held, [""] * count, "alice"),
                ):
                    result = await measure(server, to, credentials, tokens=tokens, expected=expected)
                    before = found.get(name)
                    if before is None or result["cpu_us_per_login"] < before["cpu_us_per_login"]:
                        found[name] = result
            assert server.stdin is not None
            server.stdin.close()
            server.wait(10)
    return {"logins": count, "by": found}


def main() -> None:
    """Run what the arguments say."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(*sys.argv[2:4]))
        return
    figures = asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
    print(json.dumps(figures, indent=1))  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()
