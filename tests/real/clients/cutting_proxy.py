"""A TCP proxy that cuts every connection once, when so many bytes came back."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Forwards connections to a server; the first time that an amount has come back, it resets all of them.

    Args:
        target: host:port of the server.
        cut_after_bytes: Bytes from the server, over all connections, before the cut.
    """

    def __init__(self, target: str, *, cut_after_bytes: int) -> None:
        """Listen on a free port."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._left_bytes = cut_after_bytes
        self.cut_count = 0
        """Connections that were cut."""
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        """host:port to connect to."""

    def __enter__(self) -> Self:
        """Start to accept."""
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every connection and thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
        for connection in self._open:
            connection.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            with self._lock:
                self._open += [client, server]
            self._start(self._forward, client, server, False)
            self._start(self._forward, server, client, True)

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:  # noqa: FBT001
        with suppress(OSError):
            while data := source.recv(65536):
                if is_answer and self._is_cut(len(data)):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, count: int) -> bool:
        """Count bytes; on the one crossing of the limit end all connections."""
        with self._lock:
            before, self._left_bytes = self._left_bytes, self._left_bytes - count
            if not before > 0 >= self._left_bytes:
                return False
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.cut_count += 1
            return True
