"""Rows on their way to executors: bodies go with them once, and one cluster's trouble is its own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from argosy.executor.v1 import executor_pb2
from argosy_core.leader.events import Role, RowsLost, Session
from argosy_core.reconcile.spec_cache import SpecCache
from argosy_core.scheduler.columns.messages import SpecReference
from argosy_core.scheduler.outgoing.effects import ExecutorRows
from argosy_server.leader.sessions.executors import SyncSession
from argosy_server.leader.sessions.rows import BODY_BYTES_PER_MESSAGE, RowSender
from argosy_server.leader.show.notes import LeaderNotes

BODIES = {name: name.encode() * (BODY_BYTES_PER_MESSAGE * 3 // 4) for name in "abc"}
HASHES = {name: hashlib.blake2b(name.encode(), digest_size=16).digest() for name in "abcx"}
CACHE_BYTES = BODY_BYTES_PER_MESSAGE * 5 // 4  # one body


class SpecStore:
    """Holds the bodies."""

    def read_specs(self, keys: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], tuple[bytes, bytes]]:
        """Return those there are."""
        bodies = {HASHES[name]: body for name, body in BODIES.items()}
        return {key: (bodies[key[1]], b"") for key in keys if key[1] in bodies}


def rows_of(specs: str) -> ExecutorRows:
    """Return one row for each spec named."""
    count = len(specs)
    return ExecutorRows(
        cluster="c1",
        handle=np.arange(1, count + 1),
        attempt=np.ones(count, np.int32),
        id_high=np.zeros(count, np.int64),
        spec=np.arange(count, dtype=np.int32),
        specs=tuple(SpecReference(day=1, hash=HASHES[name], layout=b"[]") for name in specs),
        node=np.zeros(count, np.int32),
        nodes=("n",),
        metadata_index=np.full(count, -1, np.int32),
        metadata=(),
        owner=np.zeros(count, np.int32),
        owners=(("q", "s"),),
        seen=np.zeros(count, np.bool_),
    )


def new_session(cluster: str = "c1") -> SyncSession:
    """Return a session whose peer holds one body."""
    session = SyncSession(Session(cluster, Role.EXECUTOR, 1, 1))
    session.specs = SpecCache(CACHE_BYTES)
    return session


async def run_until(sender: RowSender, condition: Any) -> None:
    """Let the sender work until something is so."""
    running = asyncio.create_task(sender.run())
    async with asyncio.timeout(50):
        while not condition():
            assert not running.done()
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def new_sender(lost: list[RowsLost] | None = None) -> RowSender:
    """Return a sender over a store with three specs, and where it tells of rows that cannot be made."""
    tell = (lost if lost is not None else []).append
    return RowSender(LeaderNotes("default"), SpecStore(), tell)  # type: ignore[arg-type]


def sent_rows(session: SyncSession) -> list[executor_pb2.ObjectRows]:
    """Return what was sent."""
    return [message.rows for message in session._waiting if message.WhichOneof("message") == "rows"]


async def test_bodies_arrive_also_when_an_earlier_piece_drove_one_out_of_the_cache() -> None:
    """Both ends hold the same bodies at each message; what the first piece displaces goes along with the second."""
    sender, session = new_sender(), new_session()
    sender.put(rows_of("a"), session)
    sender.put(rows_of("bca"), session)

    await run_until(sender, lambda: sum(len(rows.handle_column) for rows in sent_rows(session)) == 8 * 4)

    peer = SpecCache(CACHE_BYTES)
    received = [peer.receive(rows.spec_hashes, rows.spec_bodies) for rows in sent_rows(session)]
    assert received[0] == [BODIES["a"]]
    bodies = dict(
        zip((h for rows in sent_rows(session) for h in rows.spec_hashes), chain.from_iterable(received), strict=True)
    )
    assert bodies == {HASHES[name]: BODIES[name] for name in "abc"}
    assert not session.closed.is_set()


async def test_rows_without_a_spec_are_told_and_all_others_are_sent() -> None:
    """A spec that is not stored costs the runs that need it; the session goes on, also for the same cluster."""
    lost: list[RowsLost] = []
    sender, session = new_sender(lost), new_session()
    sender.put(rows_of("bx"), session)
    sender.put(rows_of("a"), session)

    await run_until(sender, lambda: len(sent_rows(session)) == 2)

    assert [list(rows.spec_hashes) for rows in sent_rows(session)] == [[HASHES["b"]], [HASHES["a"]]]
    (told,) = lost
    assert told.session == session.key
    assert told.runs.handle.tolist() == [2]
    assert HASHES["x"].hex() in told.reason
    assert not session.closed.is_set()


async def test_labels_and_annotations_are_sent_in_messages_that_an_executor_takes() -> None:
    """Those of a message's own rows, each once, and no more than its limit: a large message would end every session."""
    sender, session = new_sender(), new_session()
    texts = tuple(bytes([97 + number]) * (BODY_BYTES_PER_MESSAGE // 4) for number in range(8))
    index = np.array([0, -1, 1, 1, 2, 3, 4, 5, 6, 7, 0], np.int32)
    rows = rows_of("a" * index.size)
    sender.put(replace(rows, metadata=texts, metadata_index=index), session)

    await run_until(sender, lambda: sum(len(rows.handle_column) for rows in sent_rows(session)) == index.size * 8)

    sent, told = sent_rows(session), []
    for message in sent:
        places = np.frombuffer(message.metadata_column, "<i4").tolist()
        assert sorted(set(places) - {-1}) == list(range(len(message.metadata)))
        told += [message.metadata[place] if place >= 0 else b"" for place in places]
    assert told == [texts[place] if place >= 0 else b"" for place in index.tolist()]
    assert max(sum(map(len, message.metadata)) for message in sent) <= BODY_BYTES_PER_MESSAGE
    assert not session.closed.is_set()


async def test_rows_that_cannot_be_sent_end_that_clusters_session_only() -> None:
    """What nobody foresaw is one cluster's trouble, and the next cluster gets its rows."""
    sender, broken, sound = new_sender(), new_session("c1"), new_session("c2")
    sender.put(replace(rows_of("a"), node=np.zeros(0, np.str_)), broken)
    sender.put(rows_of("b"), sound)

    await run_until(sender, lambda: sent_rows(sound))

    assert broken.closed.is_set()
    assert not sound.closed.is_set()
