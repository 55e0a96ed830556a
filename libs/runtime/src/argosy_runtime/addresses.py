"""Addresses of processes as texts: `host:port`, also where the host is an IPv6 address."""

from __future__ import annotations

import ipaddress
import socket

__all__ = ["every_interface", "with_brackets"]


def with_brackets(address: str) -> str:
    """Return `host:port` as it can be dialled: an IPv6 address in brackets.

    A manifest that puts a pod's address before a port cannot know whether it needs brackets.

    Args:
        address: host:port; what is no bare IPv6 address with a port stays as it is.
    """
    host, _, port = address.rpartition(":")
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return address
    return f"[{host}]:{port}"


def every_interface(host: str) -> str:
    """Return the host to listen at; `0.0.0.0` and `[::]` mean every address of either family, as they do for gRPC.

    Pods of a cluster with IPv6 alone have no other address, and manifests say `0.0.0.0` wherever they are applied.

    Args:
        host: As configured, with or without brackets.
    """
    plain = host.strip("[]")
    if plain in {"0.0.0.0", "::"}:  # noqa: S104 - what the operator chose
        return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104
    return plain
