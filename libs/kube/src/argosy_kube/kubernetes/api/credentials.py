"""Who we are to an API server, and where it is: what a kubeconfig or a pod's service account says.

Reading is done by the official client's configuration loader, which knows tokens, token files, client certificates,
exec plugins and their expiry. It may run programs and read files, so it runs in a thread. Nothing else of that client
is used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from argosy_core.errors import BackendUnavailable, InvalidRequest

__all__ = ["CredentialSource", "Credentials", "Endpoint", "goes_direct"]

_TOKEN_KEPT_S: Final = 30.0
"""Exec plugins and service accounts are asked again this often; both answer from what they have until it expires."""
_DEFAULT_PATH: Final = "~/.kube/config"


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSource:
    """Where credentials are read."""

    path: str = ""
    """Kubeconfig; empty for the default rules (`KUBECONFIG`, then `~/.kube/config`)."""
    context: str = ""
    """Context of the kubeconfig; empty for its current one."""
    in_cluster: bool = False
    """The service account of the pod this process runs in, instead of a kubeconfig."""

    def __str__(self) -> str:
        """Return the source as people write it."""
        if self.in_cluster:
            return "the service account of this pod"
        name = f"kubeconfig {self.path!r}" if self.path else "the default kubeconfig"
        return f"{name}, context {self.context!r}" if self.context else name

    def missing_files(self) -> str:
        """Return which kubeconfigs were looked for, if not one of them is there; else nothing."""
        if self.in_cluster:
            return ""
        named = self.path or os.environ.get("KUBECONFIG") or _DEFAULT_PATH
        paths = [path for path in named.split(os.pathsep) if path]
        return "" if any(_is_there(path) for path in paths) else " or ".join(paths)


def _is_there(path: str) -> bool:
    """Return whether there is a file, be it one that cannot be read."""
    try:
        os.stat(os.path.expanduser(path))  # noqa: PTH111, PTH116 - as the loader does
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An API server as one set of credentials sees it."""

    url: str
    """Base address without a slash at its end."""
    ssl_context: ssl.SSLContext | None
    """How it is known, and how we are known if by certificate; None for plain HTTP."""
    server_name: str | None
    """Name that its certificate must have, if not that of the address."""
    proxy: str | None
    """Proxy to go through."""


class Credentials:
    """Credentials that stay good: tokens are renewed before they end, and read anew when they are refused.

    Args:
        source: Where they are read.
        monotonic: Seconds that never go back.
    """

    def __init__(self, source: CredentialSource, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet."""
        self._source = source
        self._monotonic = monotonic
        self._configuration: Any = None
        self._endpoint: Endpoint | None = None
        self._authorization: str | None = None
        self._read_s = 0.0
        self._lock = asyncio.Lock()
        self.generation = 0
        """How often everything was read anew; connections made before may carry an old certificate."""

    async def endpoint(self) -> Endpoint:
        """Return where the API server is.

        Raises:
            BackendUnavailable: The source cannot be read.
        """
        if self._endpoint is None:
            await self.renew(self.generation)
        assert self._endpoint is not None
        return self._endpoint

    async def authorization(self) -> str | None:
        """Return the value of the authorization header, or None if a certificate says who we are.

        Raises:
            BackendUnavailable: The source cannot be read.
        """
        if self._endpoint is not None and self._monotonic() - self._read_s < _TOKEN_KEPT_S:
            return self._authorization
        async with self._lock:
            if self._configuration is not None and self._monotonic() - self._read_s >= _TOKEN_KEPT_S:
                await self._in_thread(self._read_token)
        if self._endpoint is None:
            await self.renew(self.generation)
        return self._authorization

    async def renew(self, generation: int) -> None:
        """Read everything anew, unless somebody has done so since `generation`.

        Raises:
            BackendUnavailable: The source cannot be read.
        """
        async with self._lock:
            if self._endpoint is None or generation == self.generation:
                await self._in_thread(self._read_all)
                self.generation += 1

    async def _in_thread(self, read: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(read)
        except asyncio.CancelledError:
            raise
        except Exception as cause:  # the loader raises whatever its files and plugins make it raise
            raise BackendUnavailable(f"credentials cannot be read from {self._source}: {cause}") from cause

    def _read_token(self) -> None:
        key = self._configuration.get_api_key_with_prefix("BearerToken", "authorization")
        if not key and (self._configuration.username or self._configuration.password):
            key = self._configuration.get_basic_auth_token()
        # Service accounts are read as "bearer ..."; the scheme's case does not matter, a newline behind it does.
        self._authorization = key.strip() if key else None
        self._read_s = self._monotonic()

    def _read_all(self) -> None:
        from kubernetes.client import Configuration
        from kubernetes.config import load_incluster_config, load_kube_config

        configuration = Configuration()
        if missing := self._source.missing_files():
            raise FileNotFoundError(f"there is no file {missing}")
        if self._source.in_cluster:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=self._source.path or None,
                context=self._source.context or None,
                client_configuration=configuration,
            )
        self._configuration = configuration
        self._read_token()
        url = configuration.host.rstrip("/")
        self._endpoint = Endpoint(
            url=url,
            ssl_context=_ssl_context(configuration) if url.startswith("https:") else None,
            server_name=getattr(configuration, "tls_server_name", None) or None,
            proxy=_proxy(configuration, url),
        )


def _ssl_context(configuration: Any) -> ssl.SSLContext:  # noqa: ANN401 - untyped in the official client
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    # Authorities of clusters often lack the key usage that newer rules ask for; Kubernetes' own clients do not ask.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _proxy(configuration: Any, url: str) -> str | None:  # noqa: ANN401 - untyped in the official client
    """Return the proxy to use: none on this machine, nor for hosts that `no_proxy` names."""
    proxy = configuration.proxy
    if not proxy or goes_direct(url, configuration.no_proxy or ""):
        return None
    if urlsplit(proxy).scheme not in {"http", "https"}:
        raise InvalidRequest("only http and https proxies can be used")
    return str(proxy)


def goes_direct(url: str, no_proxy: str) -> bool:
    """Return whether an address is reached without a proxy: on this machine, or named by `NO_PROXY`.

    Args:
        url: Where to.
        no_proxy: Names and addresses, separated by commas: `*`, `host`, `.domain` or `*.domain`, an IP address or a
            network as 10.0.0.0/8; each but the network may end in `:port`, and counts for that port only.
    """
    place = urlsplit(url)
    host = (place.hostname or "").lower()
    port = place.port or (443 if place.scheme == "https" else 80)
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for entry in no_proxy.lower().split(","):
        pattern = entry.strip()
        if pattern == "*" or (address is not None and _is_within(address, pattern)):
            return True
        name, colon, number = pattern.rpartition(":")
        if colon and number.isdecimal() and (_address(pattern) is None):
            if int(number) != port:
                continue
            pattern = name
        suffix = pattern.strip("[]").removeprefix("*").lstrip(".")
        if suffix and (host == suffix or host.endswith(f".{suffix}") or (address and _address(suffix) == address)):
            return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, pattern: str) -> bool:
    try:
        return "/" in pattern and address in ipaddress.ip_network(pattern, strict=False)
    except ValueError:
        return False
