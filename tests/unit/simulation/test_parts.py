"""The parts of a world: time, streams, the store's model."""

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation, StateConflict
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import JobState
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts, JobUpdates
from argosy_core.leader.transaction import Transaction
from argosy_simulation import WorldSettings, draw_world
from argosy_simulation.agenda import Agenda, Process
from argosy_simulation.fingerprint import Fingerprint
from argosy_simulation.network import Network, Stream
from argosy_simulation.run_notes import note_held


class End(Process):
    """A process that keeps what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.heard: list[object] = []

    def hear(self, what: object) -> None:
        """Take a message."""
        self.heard.append(what)

    def stream_closed(self, stream: Stream) -> None:
        """Take note of the end of a stream."""
        self.heard.append("closed")


def make_network(**delays: object) -> tuple[Agenda, Network, End, End]:
    """Return time, a network and two ends."""
    agenda = Agenda(0)
    settings = WorldSettings(**delays)  # type: ignore[arg-type]
    return agenda, Network(agenda, settings, np.random.default_rng(1)), End("client"), End("server")


def test_events_happen_in_order_of_time_then_of_their_making() -> None:
    """Equal moments keep the order in which they were put down; the dead do nothing."""
    agenda, one, two = Agenda(100), End("one"), End("two")
    agenda.after(2.0, one, one.hear, "late")
    agenda.after(1.0, one, one.hear, "first")
    agenda.after(1.0, one, one.hear, "second")
    agenda.after(0.5, two, two.hear, "never")
    two.alive = False
    while agenda.step():
        pass
    assert one.heard == ["first", "second", "late"]
    assert two.heard == []
    assert agenda.now_us == 100 + 2_000_000


def test_messages_of_a_stream_arrive_in_order_however_long_each_takes() -> None:
    """Delays are drawn for each message, yet a stream is one."""
    agenda, network, client, server = make_network(message_s=(0.0, 10.0))
    stream = network.dial(client, server)
    for number in range(20):
        network.send(stream, server, server.hear, number)
    while agenda.step():
        pass
    assert server.heard == list(range(20))


def test_cut_stream_loses_what_is_on_its_way_and_tells_both_ends() -> None:
    """Nothing arrives after a cut; a message sent later goes nowhere."""
    agenda, network, client, server = make_network(message_s=(1.0, 1.0))
    stream = network.dial(client, server)
    network.send(stream, server, server.hear, "lost")
    network.cut(stream)
    network.send(stream, client, client.hear, "lost too")
    while agenda.step():
        pass
    assert server.heard == ["closed"]
    assert client.heard == ["closed"]


def test_closed_stream_delivers_what_was_sent_before() -> None:
    """Whoever ends a stream has its messages delivered first, and hears nothing more."""
    agenda, network, client, server = make_network(message_s=(1.0, 1.0))
    stream = network.dial(client, server)
    network.send(stream, server, server.hear, "last words")
    network.send(stream, client, client.hear, "too late")
    network.close(stream, client)
    while agenda.step():
        pass
    assert server.heard == ["last words", "closed"]
    assert client.heard == []


@pytest.mark.parametrize(("length_s", "ends"), [(1.0, False), (20.0, True)], ids=["short", "long"])
def test_silence_of_three_heartbeats_ends_a_stream(length_s: float, *, ends: bool) -> None:
    """A stall delays; one longer than three heartbeats of two seconds ends the stream."""
    agenda, network, client, server = make_network()
    stream = network.dial(client, server)
    network.stall(stream, length_s)
    network.send(stream, server, server.hear, "word")
    while agenda.step():
        pass
    assert server.heard == (["closed"] if ends else ["word"])


def test_heartbeats_are_confirmed_until_a_stall_begins() -> None:
    """The fence counts from the last heartbeat that was answered; every two seconds there is one."""
    agenda, network, client, server = make_network()
    stream = network.dial(client, server)
    agenda.now_us = 7_000_000
    assert network.confirmed_s(stream) == 6.0
    network.stall(stream, 30.0)
    agenda.now_us = 20_000_000
    assert network.confirmed_s(stream) == 6.0


def test_fingerprint_sees_every_column() -> None:
    """One element of one array makes another hash; so do time, name and action."""
    base = (1, "who", "what", (np.array([1, 2]), {"a": (1.5, None)}))
    changes = [
        base,
        (2, *base[1:]),
        (1, "other", *base[2:]),
        (1, "who", "else", base[3]),
        (1, "who", "what", (np.array([1, 3]), {"a": (1.5, None)})),
        (1, "who", "what", (np.array([1, 2]), {"a": (1.6, None)})),
    ]
    hashes = set()
    for time_us, who, what, values in changes:
        fingerprint = Fingerprint()
        fingerprint.note(time_us, who, what, values)
        hashes.add(fingerprint.hexdigest())
    assert len(hashes) == len(changes)


def test_fingerprint_says_what_stands_in_a_column_and_not_where_it_is_in_memory() -> None:
    """Columns of definitions hold objects, which are elsewhere in each process."""
    hashes = []
    for amounts in ((1, 2), (1, 2), (1, 3)):
        fingerprint = Fingerprint()
        column = np.empty(2, dtype=np.object_)
        column[:] = [SchedulingClass(requests=(("cpu", amount * 1000),)) for amount in amounts]
        fingerprint.note(1, "leader", "call", (column,))
        hashes.append(fingerprint.hexdigest())
    assert hashes[0] == hashes[1] != hashes[2]


def make_ends(handle: int, state: JobState) -> JobUpdates:
    """Return the end of one job."""
    return JobUpdates(
        handle=np.array([handle]),
        state=np.array([state], dtype=np.int16),
        end_time_us=np.array([1]),
        reason_index=np.array([-1], dtype=np.int32),
        reasons=(),
    )


def test_store_refuses_old_epochs_and_absorbs_ends() -> None:
    """A replaced leader writes nothing; a terminal state never changes."""
    store = draw_world(1, with_faults=False).context.store
    store.submit(store.next_change_id(), np.array([0]), 5)
    (handle,) = store.jobs
    old, new = store.epoch, store.lead()
    with pytest.raises(StateConflict):
        store.apply(old, Transaction(job_ends=[make_ends(handle, JobState.FAILED)]))
    with pytest.raises(StateConflict):
        store.append(old, None)
    assert store.jobs[handle].state == 0
    store.apply(new, Transaction(job_ends=[make_ends(handle, JobState.FAILED)]))
    store.apply(new, Transaction(job_ends=[make_ends(handle, JobState.SUCCEEDED)]))
    assert store.jobs[handle].state == JobState.FAILED


def test_what_a_run_holds_is_noted_unless_its_lease_was_refused() -> None:
    """Its sampler may tell of it before the leader knows; of a run that nobody leased it may not."""
    store = draw_world(1, with_faults=False).context.store
    store.submit(store.next_change_id(), np.array([0]), 5)
    (handle,) = store.jobs
    held = HeldAmounts(members=Members.of_key((handle, 1)), names=("cpu",), amounts=np.array([[3]]))
    note_held(store.jobs, {(handle, 1)}, held)
    with pytest.raises(KeyError):
        note_held(store.jobs, set(), held)


def test_auditor_stops_a_second_pod_of_a_job() -> None:
    """Two pods of one member of a job never run at once, wherever they are, nor do pods of two of its runs."""
    audit = draw_world(1, with_faults=False).context.audit
    audit.pod_started("alpha", 7, 1, 0)
    audit.pod_started("alpha", 7, 1, 1)
    with pytest.raises(InvariantViolation, match="runs twice"):
        audit.pod_started("beta", 7, 2, 0)
    audit.pod_stopped("alpha", 7, 1, 0)
    with pytest.raises(InvariantViolation, match="runs twice"):
        audit.pod_started("beta", 7, 2, 0)
    audit.pod_stopped("alpha", 7, 1, 1)
    audit.pod_started("beta", 7, 2, 0)
