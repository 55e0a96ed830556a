"""Ids of jobs as people type them: whole, or only their ends, as tables show them.

Source: design section 9.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from argosy_core.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient

__all__ = ["whole_id", "whole_ids"]

_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ENDING: Final = re.compile(r"[0-9A-Fa-f]{4,12}")
_MOST: Final = 20
"""Endings that a server looks for at once."""


async def whole_id(client: ArgosyClient, text: str) -> str:
    """Return the id that a text is, or is the end of.

    Raises:
        InvalidRequest: It cannot be either.
        NotFound: No job has an id that ends so.
    """
    return (await whole_ids(client, (text,)))[0]


async def whole_ids(client: ArgosyClient, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the ids that texts are, or are the ends of; asks the server only if there are ends.

    Raises:
        InvalidRequest: A text cannot be either.
        NotFound: No job has an id that ends so.
    """
    endings = [text for text in texts if not _ID.fullmatch(text)]
    wrong = [text for text in endings if not _ENDING.fullmatch(text)]
    if wrong:
        raise InvalidRequest(
            f"{wrong[0][:64]!r} is no job id; give a whole one, or its last 4 to 12 digits as `argosy jobs` shows them"
        )
    whole: dict[str, str] = {}
    for start in range(0, len(endings), _MOST):
        part = endings[start : start + _MOST]
        found, _ = await client.get_jobs(part)
        whole |= {text: job.id for text in part for job in found if job.id.endswith(text.lower())}
    missing = [text for text in endings if text not in whole]
    if missing:
        raise NotFound(f"no job has an id that ends with {missing[0]}; `argosy jobs` lists them")
    return tuple(whole.get(text, text) for text in texts)
