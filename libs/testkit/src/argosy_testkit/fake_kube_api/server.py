"""The fake API server: HTTP on the loopback interface, one path for everything."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from aiohttp import web

from argosy_testkit.fake_kube_api.faults import ApiFault, FaultScript
from argosy_testkit.fake_kube_api.kinds import KINDS, group_list, resource_list
from argosy_testkit.fake_kube_api.kubelet import Kubelets
from argosy_testkit.fake_kube_api.metrics import metrics_list, page, read_used, summary
from argosy_testkit.fake_kube_api.patches import merged, noted, resized
from argosy_testkit.fake_kube_api.store import Document, Refusal, Store, selects

__all__ = ["FakeKubeApi"]

_TOKEN: Final = "fake-token"  # noqa: S105 - of a server that lives for a test
_POLL_S: Final = 0.01
_LOG_TIME: Final = "2026-01-01T00:00:00"
_METRICS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/pods"


class FakeKubeApi:
    """A fake API server on a free port.

    Args:
        speed: Simulated seconds per second for pods.
        bookmark_s: Time between bookmarks of a quiet watch.
    """

    def __init__(self, *, speed: float = 20.0, bookmark_s: float = 1.0) -> None:
        """Serve nothing yet."""
        self.store = Store()
        """What it keeps."""
        self.faults = FaultScript()
        """What shall fail."""
        self.kubelets = Kubelets(self.store, speed=speed)
        """What runs its pods."""
        self.token = _TOKEN
        """Token that callers must come with; tests may change it."""
        self.uses: dict[tuple[str, str], tuple[str, str]] = {}
        """Quantities of cpu and memory that the metrics API tells, by (namespace, name) of pods."""
        self.monotonic: Callable[[], float] = time.monotonic
        """Clock by which kubelets count what pods use; tests may change it."""
        self.accounts: dict[str, tuple[str, str]] = {}
        """Name and audience of service accounts, by their token; without an audience the server knows of none."""
        self.reviewed: list[str] = []
        """Tokens that were reviewed."""
        self.most_under_way = 0
        """Most calls, streams apart, that were under way at once."""
        self._under_way = 0
        self._bookmark_s = bookmark_s
        self._news = asyncio.Event()
        self._drops = 0
        self.store.on_change.append(lambda *_: self._wake())
        self._runner: web.AppRunner | None = None
        self.url = ""
        """Its address."""
        self.store.objects["namespaces"] = {
            ("", name): {"metadata": {"name": name, "uid": f"00000000-0000-4000-8000-{index:012}"}}
            for index, name in enumerate(self.store.namespaces)
        }

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self.kubelets.close()
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this server to a file and return it."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "one", "user": {"token": self.token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "one"}}],
            "current-context": "fake",
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def drop_watches(self) -> None:
        """End every running watch without an error."""
        self._drops += 1
        self._wake()

    def forget_history(self) -> None:
        """Let every version before now be too old, for running watches as well."""
        self.store.forget()
        self._wake()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once something is true of what is kept; it is looked at after each change."""
        while not condition():
            await self._news.wait()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") or request.path.endswith("/log"):
            return await self._serve(request)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            return await self._serve(request)
        finally:
            self._under_way -= 1

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.faults.accepted.append((request.method, request.headers.get("Accept", "")))
        fault = self.faults.take(request.method, request.path_qs)
        if fault is not None and not fault.is_applied and fault.kind in {"status", "drop"}:
            return await self._fail(request, fault)
        try:
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise Refusal(401, "Unauthorized", "Unauthorized")
            if request.path.endswith("/tokenreviews"):
                body: Any = 201, msgspec.json.encode({"status": self._review((await request.json())["spec"])})
            else:
                body = self._measured(request) or await self._answer(request)
        except Refusal as refusal:
            return _refuse(refusal)
        if isinstance(body, web.StreamResponse):
            return body
        if fault is not None:
            return await self._spoil(request, fault, body[1])
        return web.Response(status=body[0], body=body[1], content_type="application/json")

    async def _fail(self, request: web.Request, fault: ApiFault) -> web.Response:
        await asyncio.sleep(fault.delay_s)
        if fault.kind == "drop":
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        details = {} if fault.is_bare else {"name": fault.name, "kind": fault.resource}
        refusal = Refusal(fault.status, fault.reason, fault.message, details)
        response = _refuse(refusal)
        if fault.retry_after:
            response.headers["Retry-After"] = fault.retry_after
        return response

    async def _spoil(self, request: web.Request, fault: ApiFault, body: bytes) -> web.StreamResponse:
        """Answer what was done, badly."""
        if fault.kind in {"status", "drop"}:
            return await self._fail(request, fault)
        if fault.kind == "slow":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await asyncio.sleep(fault.delay_s)
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            await asyncio.sleep(fault.delay_s)
            await response.write(body[len(body) // 2 :])
            await response.write_eof()
            return response
        spoiled = {
            "truncate": body[: len(body) // 2],
            "garbage": b"<html>bad gateway</html>",
            "bad-utf8": body.replace(b'"uid":"', b'"uid":"\xff\xfe', 1),
        }[fault.kind]
        return web.Response(body=spoiled, content_type="application/json")

    def _review(self, spec: Document) -> Document:
        self.reviewed.append(spec["token"])
        account, audience = self.accounts.get(spec["token"], ("", "nobody"))
        if audience and audience not in spec["audiences"]:
            return {"authenticated": False, "error": "invalid bearer token"}
        namespace = account.split(":")[2]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        return {
            "authenticated": True,
            "user": {"username": account, "groups": groups},
            "audiences": [audience] * bool(audience),
        }

    async def _answer(self, request: web.Request) -> tuple[int, bytes] | web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts == ["apis"]:
            return 200, msgspec.json.encode(group_list())
        api_version, rest = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
        if api_version not in KINDS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        if not rest:
            return 200, msgspec.json.encode(resource_list(api_version))
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name = rest[0], rest[1] if len(rest) > 1 else ""
        if plural not in KINDS[api_version]:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        where = (api_version, plural, namespace, name)
        if len(rest) > 2:
            return await self._subresource(request, where, rest[2])
        if request.method == "GET" and not name:
            if request.query.get("watch") in {"true", "1"}:
                try:
                    return await self._watch(request, where)
                except ConnectionError:  # whoever watched has gone
                    return web.Response(status=499)
            return 200, self._list(request, where)
        return await self._change(request, where)

    def _measured(self, request: web.Request) -> tuple[int, bytes] | None:
        """Return an answer about what pods use; None if something else was asked."""
        if request.path == _METRICS_PATH:
            return 200, metrics_list(self.uses)
        if not request.path.endswith(("/proxy/stats/summary", "/proxy/metrics/resource")):
            return None
        node = request.path.split("/")[-4]
        pods = [pod for pod in self.store.all("pods") if pod["spec"].get("nodeName") == node]
        used = read_used(pods, self.uses)
        now_s = self.monotonic()
        return 200, summary(node, used, now_s) if request.path.endswith("summary") else page(used, now_s)

    async def _change(self, request: web.Request, where: tuple[str, str, str, str]) -> tuple[int, bytes]:
        api_version, plural, namespace, name = where
        sent = await request.read()
        document: Any = msgspec.json.decode(sent) if sent else {}
        code = 200
        if request.method == "GET":
            answer = self.store.find(plural, namespace, name)
        elif request.method == "POST":
            answer, code = self.store.create(plural, namespace, document), 201
        elif request.method == "DELETE":
            answer, is_gone = self.store.delete(plural, namespace, name, document)
            if is_gone and plural != "pods":
                return 200, msgspec.json.encode({"kind": "Status", "status": "Success"})
        elif request.method == "PATCH":
            found = self.store.find(plural, namespace, name)
            is_note = isinstance(document, list)
            changed = noted(found, document) if is_note else merged(found, document, plural)
            answer = self.store.replace(plural, changed)
        else:
            raise Refusal(405, "MethodNotAllowed", "not allowed")
        return code, msgspec.json.encode(_shaped(answer, request, api_version, plural))

    async def _subresource(
        self, request: web.Request, where: tuple[str, str, str, str], kind: str
    ) -> tuple[int, bytes] | web.StreamResponse:
        _, plural, namespace, name = where
        found = self.store.find(plural, namespace, name)
        if kind == "binding":
            if found["spec"].get("nodeName"):
                raise Refusal(409, "Conflict", "pod is already assigned to a node", {"name": name, "kind": plural})
            sent = msgspec.json.decode(await request.read())
            if sent["metadata"].get("uid") not in {None, found["metadata"]["uid"]}:
                raise Refusal(409, "Conflict", "Precondition failed: UID", {"name": name, "kind": plural})
            self.store.replace(plural, {**found, "spec": {**found["spec"], "nodeName": sent["target"]["name"]}})
            return 201, msgspec.json.encode({"kind": "Status", "status": "Success"})
        if kind == "resize" and request.method == "PATCH":
            changed = resized(found, msgspec.json.decode(await request.read()))
            answer = found if changed == found else self.store.replace(plural, changed)
            return 200, msgspec.json.encode(answer)
        if kind == "log":
            return await self._log(request, found)
        raise Refusal(404, "NotFound", "no such subresource")

    async def _log(self, request: web.Request, pod: Document) -> web.StreamResponse:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        text = self.kubelets.log(pod)
        sent = len(text)
        if request.query.get("sinceTime", "") > _LOG_TIME:
            text = b""
        if request.query.get("timestamps") == "true":
            text = b"".join(f"{_LOG_TIME}.000000000Z ".encode() + line for line in text.splitlines(keepends=True))
        if "tailLines" in request.query:
            count = int(request.query["tailLines"])
            text = b"".join(text.splitlines(keepends=True)[-count:]) if count else b""
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(text)
        while request.query.get("follow") == "true":
            found = self.store.objects["pods"].get(key)
            if found is None:
                break
            text = self.kubelets.log(found)[sent:]
            sent += len(text)
            await response.write(text)
            if found["status"].get("phase") in {"Succeeded", "Failed"}:
                break
            await asyncio.sleep(_POLL_S)
        await response.write_eof()
        return response

    # --- lists and watches --------------------------------------------------------------------------------------------

    def _list(self, request: web.Request, where: tuple[str, str, str, str]) -> bytes:
        api_version, plural, namespace, _ = where
        labels, fields = _selectors(request)
        limit = int(request.query.get("limit", "0"))
        token = request.query.get("continue", "")
        version, after = (self.store.version, "") if not token else _read_token(token)
        if int(version) < self.store.floor:
            raise Refusal(410, "Expired", "The provided continue parameter is too old")
        items: list[Document] = []
        last = ""
        more = ""
        for document in self.store.all(plural, namespace):
            key = f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"
            if key <= after or not selects(document, labels, fields):
                continue
            if limit and len(items) == limit:
                more = base64.urlsafe_b64encode(f"{version} {last}".encode()).decode()
                break
            items.append(_shaped(document, request, api_version, plural))
            last = key
        kind = "PartialObjectMetadataList" if _is_partial(request) else f"{KINDS[api_version][plural]}List"
        metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, where: tuple[str, str, str, str]) -> web.StreamResponse:
        api_version, plural, namespace, _ = where
        labels, fields = _selectors(request)
        version = int(request.query.get("resourceVersion") or self.store.version)
        drops, place = self._drops, 0
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while self._drops == drops:
            news = self._news
            if version < self.store.floor:
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
                await response.write(_line("ERROR", status))
                break
            if place > len(self.store.history):
                place = 0
            lines: list[bytes] = []
            for number, kind, change, document, before in self.store.history[place:]:
                is_there = namespace in {"", document["metadata"].get("namespace")}
                if number > version and kind == plural and is_there:
                    told = _told(change, document, before, lambda one: selects(one, labels, fields))
                    lines += [_line(word, _shaped(one, request, api_version, plural)) for word, one in told]
                version = max(version, number)
            place = len(self.store.history)
            if lines:
                await response.write(b"".join(lines))
            try:
                async with asyncio.timeout(self._bookmark_s):
                    await news.wait()
            except TimeoutError:
                mark = {"kind": KINDS[api_version][plural], "metadata": {"resourceVersion": str(version)}}
                await response.write(_line("BOOKMARK", mark))
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response


def _line(change: str, document: Any) -> bytes:  # noqa: ANN401 - any JSON
    return msgspec.json.encode({"type": change, "object": document}) + b"\n"


def _told(
    change: str, document: Document, before: Document | None, is_selected: Callable[[Document], bool]
) -> list[tuple[str, Document]]:
    """Return what a watch with selectors is told: an object that they cease to select is deleted to it, as it was."""
    was_selected = before is not None and is_selected(before)
    if is_selected(document):
        return [(change if was_selected or change == "DELETED" else "ADDED", document)]
    if before is None or not was_selected:
        return []
    version = document["metadata"]["resourceVersion"]
    return [("DELETED", {**before, "metadata": {**before["metadata"], "resourceVersion": version}})]


def _refuse(refusal: Refusal) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": refusal.message,
        "reason": refusal.reason,
        "code": refusal.code,
        **({"details": refusal.details} if refusal.details else {}),
    }
    return web.Response(status=refusal.code, body=msgspec.json.encode(status), content_type="application/json")


def _is_partial(request: web.Request) -> bool:
    return "as=PartialObjectMetadata" in request.headers.get("Accept", "")


def _shaped(document: Document, request: web.Request, api_version: str, plural: str) -> Document:
    if _is_partial(request):
        return {"kind": "PartialObjectMetadata", "metadata": document["metadata"]}
    return {"kind": KINDS[api_version][plural], "apiVersion": api_version, **document}


def _selectors(request: web.Request) -> tuple[dict[str, str], dict[str, str]]:
    labels, fields = (
        dict(part.split("=", 1) for part in request.query.get(name, "").split(",") if part)
        for name in ("labelSelector", "fieldSelector")
    )
    return labels, fields


def _read_token(token: str) -> tuple[int, str]:
    version, _, last = base64.urlsafe_b64decode(token).decode().partition(" ")
    return int(version), last
