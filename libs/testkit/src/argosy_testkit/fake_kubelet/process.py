"""A fake kubelet in a process of its own, with a plain blocking handle for tests and fixtures.

The two speak in lines of JSON over the process's standard input and output; when the input ends, the process does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from argosy_core.errors import ArgosyError, BackendUnavailable, NotAllowedNow, NotFound
from argosy_testkit.fake_kubelet.kubelet import FakeKubelet

__all__ = ["KubeletProcess", "main"]

TOKEN_VARIABLE: Final = "ARGOSY_FAKE_KUBELET_TOKEN"  # noqa: S105 - a name
"""Variable that holds the token, which a command line would show to everybody."""
_METHODS: Final = frozenset({"add_nodes", "counts", "end_pod", "heal", "partition", "remove_nodes", "set_ready"})
_LINE_LIMIT: Final = 1 << 24


class KubeletProcess:
    """A fake kubelet in a process of its own; see FakeKubelet for what the arguments and methods mean.

    Args:
        url: URL of the API server.
        token: Token of one who may do everything.
        ca: Certificate authority of the API server.
        certificate: Certificate with which logs are served.
        key: Its key.
        heartbeat_s: Time between a node's heartbeats, seconds.
        log: File of its errors.
        prefix: Words before its command line.
    """

    def __init__(  # noqa: PLR0913 - each is a fact of its own, and all go by name
        self,
        *,
        url: str,
        token: str,
        ca: Path,
        certificate: Path | None = None,
        key: Path | None = None,
        heartbeat_s: float = 10.0,
        log: Path,
        prefix: Sequence[str] = (),
    ) -> None:
        """Remember; nothing runs yet."""
        self._token = token
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        program = [sys.executable, "-m", "argosy_testkit.fake_kubelet"]
        self._arguments = [*prefix, *program, f"--url={url}", f"--ca={ca}", f"--heartbeat-s={heartbeat_s}"]
        if certificate is not None and key is not None:
            self._arguments += [f"--certificate={certificate}", f"--key={key}"]

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id, 0 if it does not run."""
        return self._process.pid if self._process is not None and self.is_running else 0

    def start(self) -> None:
        """Start it and wait until it plays the nodes that are there already.

        Raises:
            BackendUnavailable: It did not come up.
        """
        if self.is_running:
            return
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, TOKEN_VARIABLE: self._token, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        self._receive()

    def stop(self) -> None:
        """End it; nodes and pods stay as they are."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._end(signal.SIGKILL)

    def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "node",
        cpu: str = "16",
        memory: str = "64Gi",
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
        taints: Iterable[Mapping[str, str]] = (),
    ) -> tuple[str, ...]:
        """Add nodes that are ready; return their names."""
        names = self._call(
            "add_nodes",
            count=count,
            prefix=prefix,
            cpu=cpu,
            memory=memory,
            labels=dict(labels or {}),
            resources=dict(resources or {}),
            taints=[dict(taint) for taint in taints],
        )
        return tuple(names)

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes with their pods' processes; the pod objects are left to the cluster."""
        self._call("remove_nodes", names=list(names))

    def partition(self, names: Iterable[str]) -> None:
        """Cut nodes off the API server; their pods go on."""
        self._call("partition", names=list(names))

    def heal(self, names: Iterable[str]) -> None:
        """Let nodes reach the API server again."""
        self._call("heal", names=list(names))

    def set_ready(self, names: Iterable[str], *, is_ready: bool) -> None:
        """Have nodes say that they are ready, or not."""
        self._call("set_ready", names=list(names), is_ready=is_ready)

    def end_pod(self, namespace: str, name: str, *, exit_code: int = 0, reason: str = "") -> None:
        """End a pod now."""
        self._call("end_pod", namespace=namespace, name=name, exit_code=exit_code, reason=reason)

    def counts(self) -> dict[str, int]:
        """Return how often what was done, and how many pods and nodes there are."""
        return dict(self._call("counts"))

    def _call(self, method: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON
        with self._lock:
            if self._process is None or self._process.stdin is None or not self.is_running:
                raise NotAllowedNow("the fake kubelet does not run; start it")
            try:
                self._process.stdin.write(json.dumps({"method": method, "arguments": arguments}) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise BackendUnavailable(f"the fake kubelet ended: {self._last_words()}") from error
            return self._receive()

    def _receive(self) -> Any:  # noqa: ANN401 - JSON
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BackendUnavailable(f"the fake kubelet ended: {self._last_words()}")
        answer = json.loads(line)
        if answer.get("error"):
            kind = NotFound if answer["kind"] == "NotFound" else BackendUnavailable
            raise kind(answer["error"])
        return answer["result"]

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def _last_words(self) -> str:
        try:
            return self._log.read_text(encoding="utf-8", errors="replace")[-1500:].strip() or "it said nothing"
        except OSError:
            return "it has no log"


async def _answer(kubelet: FakeKubelet, line: bytes) -> dict[str, Any]:
    request = json.loads(line)
    if request["method"] not in _METHODS:
        return {"error": f"no method {request['method']}", "kind": "InvalidRequest"}
    try:
        return {"result": await getattr(kubelet, request["method"])(**request["arguments"])}
    except ArgosyError as error:
        return {"error": str(error), "kind": type(error).__name__}


async def _serve(options: argparse.Namespace) -> None:
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    if not options.keep_running:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    kubelet = FakeKubelet(
        options.url,
        os.environ[TOKEN_VARIABLE],
        options.ca,
        certificate=options.certificate,
        key=options.key,
        heartbeat_s=options.heartbeat_s,
    )
    async with kubelet:
        if options.nodes:
            await kubelet.add_nodes(options.nodes)
        if options.keep_running:
            await asyncio.Event().wait()
        answer: dict[str, Any] = {"result": "ready"}
        while True:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            line = await reader.readline()
            if not line:
                return
            answer = await _answer(kubelet, line)


def main() -> None:
    """Run until the standard input ends, or for good if told to."""
    parser = argparse.ArgumentParser(prog="python -m argosy_testkit.fake_kubelet", description=main.__doc__)
    parser.add_argument("--url", required=True, help="URL of the API server")
    parser.add_argument("--ca", type=Path, required=True, help="its certificate authority")
    parser.add_argument("--certificate", type=Path, help="certificate with which logs are served")
    parser.add_argument("--key", type=Path, help="key of the certificate")
    parser.add_argument("--heartbeat-s", type=float, default=10.0, help="seconds between a node's heartbeats")
    parser.add_argument("--nodes", type=int, default=0, help="how many nodes to add at the start")
    parser.add_argument("--keep-running", action="store_true", help="take no commands, run until killed")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(parser.parse_args()))
