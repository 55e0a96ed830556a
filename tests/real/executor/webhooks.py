"""An admission webhook that says no to every pod, served over TLS in the test's event loop."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from argosy_testkit.tls_endpoint import Certificates

__all__ = [
    "PODS_CREATED",
    "DenyingWebhook",
    "RefusingPort",
    "refusing_port",
    "serving_webhook",
    "webhook_configuration",
]

PODS_CREATED = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@dataclass
class DenyingWebhook:
    """What it answers."""

    client_config: dict[str, str] = field(default_factory=dict)
    """How the API server reaches it."""
    status: dict[str, Any] = field(default_factory=dict)
    """Status of its denials, as it likes it."""
    review_count: int = 0
    """How often it was asked."""

    async def answer(self, request: web.Request) -> web.Response:
        """Deny."""
        review = await request.json()
        self.review_count += 1
        response = {"uid": review["request"]["uid"], "allowed": False, "status": self.status}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


@asynccontextmanager
async def serving_webhook(directory: Path) -> AsyncGenerator[DenyingWebhook, None]:
    """Serve a webhook; its certificates are put into a directory."""
    authority = Certificates(directory, "webhooks")
    certificate, key = authority.issue("localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    webhook = DenyingWebhook()
    application = web.Application()
    application.router.add_post("/", webhook.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        webhook.client_config = {
            "url": f"https://localhost:{runner.addresses[0][1]}/",
            "caBundle": base64.b64encode(authority.authority.read_bytes()).decode(),
        }
        yield webhook
    finally:
        await runner.cleanup()


@dataclass
class RefusingPort:
    """A port behind which nobody speaks TLS."""

    number: int = 0
    """Where."""
    try_count: int = 0
    """How often somebody came."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, count: int) -> None:
        """Return once somebody came so often."""
        while self.try_count < count:
            self._news.clear()
            await self._news.wait()

    def _turn_away(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.try_count += 1
        self._news.set()
        writer.transport.abort()


@asynccontextmanager
async def refusing_port() -> AsyncGenerator[RefusingPort, None]:
    """Turn away whoever comes, and count."""
    port = RefusingPort()
    server = await asyncio.start_server(port._turn_away, "127.0.0.1", 0)
    async with server:
        port.number = server.sockets[0].getsockname()[1]
        yield port


def webhook_configuration(name: str, namespace: str, client_config: dict[str, str]) -> dict[str, Any]:
    """Return the object that has the API server ask a webhook before it takes a pod of a namespace."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "one.argosy.test",
                "clientConfig": client_config,
                "rules": [PODS_CREATED],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
            }
        ],
    }
