"""A program that tells the agent how much it needs: it keeps its cache, and asks for more before a large step.

In its pod: `argosy.dev/autoscale-contract-port: "8321"`, and this on that port. Only the standard library is used.
See docs/autoscale.md "A word of the pod's own".
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MIB = 1 << 20


class Needs:
    """The least that the program needs now; set by its threads, read by those that answer."""

    def __init__(self) -> None:
        """Need what is there from the start."""
        self.memory_bytes = 256 * MIB
        self.cpu_millicores = 250

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        """Return the least that is needed; `told` has our `size`, and the one that is `proposed` by what we use."""
        if self.memory_bytes <= told["proposed"]["memory_bytes"]:
            return {}  # whatever is proposed is enough
        return {"needs": {"cpu_millicores": self.cpu_millicores, "memory_bytes": self.memory_bytes}}


def serve(needs: Needs, port: int) -> ThreadingHTTPServer:
    """Answer the agent in a thread of its own; port 0 takes any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("Content-Length", 0)), 4096)
            body = json.dumps(needs.answer(json.loads(self.rfile.read(length)))).encode()
            self.send_response(200 if self.path == "/argosy/size" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    now = Needs()
    serve(now, int(sys.argv[1]))
    for step in range(1, 9):  # the work, which needs ever more memory
        now.memory_bytes = (256 + 128 * step) * MIB
        threading.Event().wait(30.0)
