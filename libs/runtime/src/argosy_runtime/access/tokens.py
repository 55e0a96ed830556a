"""Static tokens: secrets that are drawn once, given to their holder, and kept here as hashes only.

A file of tokens is YAML::

    tokens:
      - {name: alice, groups: [research], sha256: 9f86d0...}
      - {cluster: west, part: executor, sha256: 2c26b4...}
      - {server: true, sha256: fcde2b...}

A token has 256 random bits, so a plain hash gives nothing away; hashes are compared by looking them up, which tells a
caller nothing about those it did not hit.

Source: design section 5, "Who is who".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from argosy.channel_credentials import hash_token
from argosy_core.access import ClusterPart, Principal, is_subject
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.findings import is_dns_name
from argosy_runtime.access.files import WatchedFiles

__all__ = ["TokenFile", "read_tokens"]

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = frozenset({"name", "groups", "cluster", "part", "server", "sha256"})


class TokenFile:
    """The principals of a file of tokens, which is read again when it changes.

    Args:
        path: The file.

    Raises:
        InvalidRequest: It cannot be read, or an entry is wrong.
    """

    def __init__(self, path: str) -> None:
        """Read it."""
        self._file = WatchedFiles([path], lambda contents: read_tokens(contents, where=path))

    def find(self, token: str) -> Principal | None:
        """Return whose token it is; None if it is nobody's."""
        return self._file.current().get(hash_token(token))


def read_tokens(contents: Sequence[bytes], *, where: str) -> Mapping[str, Principal]:
    """Return principals by the hash of their token.

    Args:
        contents: Bytes of the one file.
        where: What errors call it.

    Raises:
        InvalidRequest: It is no YAML of this form; the message names the entry, and never a token.
    """
    try:
        document = yaml.safe_load(contents[0])
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as cause:
        raise InvalidRequest(f"{where}: is no YAML") from cause
    entries = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidRequest(f"{where}: needs a list under the key tokens")
    found: dict[str, Principal] = {}
    for index, entry in enumerate(entries):
        place = f"{where}: tokens[{index}]"
        if not isinstance(entry, dict) or not entry.keys() <= _KEYS:
            raise InvalidRequest(f"{place}: must be a mapping with the keys {', '.join(sorted(_KEYS))} alone")
        digest = entry.get("sha256")
        if not isinstance(digest, str) or not _HASH.fullmatch(digest) or digest in found:
            raise InvalidRequest(f"{place}: sha256 must be 64 small hexadecimal digits that no other entry has")
        found[digest] = _principal(entry, place)
    return found


def _principal(entry: Mapping[str, Any], place: str) -> Principal:
    cluster, name, groups = entry.get("cluster"), entry.get("name"), entry.get("groups", [])
    if [cluster is not None, name is not None, entry.get("server") is True].count(True) != 1:
        raise InvalidRequest(f"{place}: needs one of name, cluster and server: true")
    if entry.get("server") is True:
        return Principal(name="server", is_server=True)
    if cluster is not None:
        part = entry.get("part")
        if not isinstance(cluster, str) or not is_dns_name(cluster) or part not in {None, *ClusterPart}:
            raise InvalidRequest(f"{place}: needs a cluster's name and, for one part only, {', '.join(ClusterPart)}")
        return Principal(name=cluster, cluster=cluster, part=part and ClusterPart(part))
    if not isinstance(groups, list) or not all(isinstance(one, str) and is_subject(f"group:{one}") for one in groups):
        raise InvalidRequest(f"{place}: groups must be a list of names")
    if not isinstance(name, str) or not is_subject(f"user:{name}"):
        raise InvalidRequest(f"{place}: name must be a name without spaces and commas")
    return Principal(name=name, groups=tuple(groups))
