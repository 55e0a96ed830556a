"""Measures a takeover: how long until a new leader serves and its clusters have their sessions, and at what memory.

The database is an embedded Postgres with fsync off, filled with live jobs of which nine in ten run; the changes of the
last 20,000 are not taken yet. The leader is a process of its own: it loads, fills its memory, catches up with the
changes and the log, and serves; then eight samplers and executors say hello, get their full lists of placements as
messages, and are compared with what they know. A thread renews a short lease meanwhile.

Usage: python tests/benchmarks/takeover.py [--jobs 100000 1000000] [--lease-s 3]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from argosy_core.job.tables.members import Members
from argosy_core.leader import LeaderMachine, MachineSettings
from argosy_core.leader.events import (
    Bound,
    Change,
    ChangesRead,
    ClusterSettings,
    Event,
    MarkerPublished,
    Moment,
    ReadRecord,
    RecordsRead,
    References,
    Role,
    Session,
    Stored,
)
from argosy_core.leader.instructions import ReadChanges, ReadRecords, SendPlacements, Serve, Store
from argosy_core.scheduler import JobColumns, placements_of
from argosy_server.config import ServerConfig
from argosy_server.leader.cycle.effects import store_effects
from argosy_server.leader.hot import HotSettings
from argosy_server.leader.sessions.cluster_codec import placement_parts
from argosy_server.leader.takeover.loading import loaded_pool
from argosy_store import Effects, EmbeddedPostgres, LeaderStore, migrate
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.submissions import make_leases, make_objects, make_reports, make_spec
from argosy_testkit.world_rows import POD_LAYOUT

_CHUNK = 20_000
_CLASSES = 50
_JOB_SETS = 20
_SPECS = 100
_NODES = tuple(f"node-{number}" for number in range(5000))
_CLUSTERS = tuple(f"cluster-{number}" for number in range(8))


def fill(url: str, count: int) -> None:
    """Store live jobs: nine in ten run, one in five has labels."""
    with StoreWorld(url) as world:
        classes = world.api.class_ids([b'{"requests":{"cpu":%d}}' % (1000 + n) for n in range(_CLASSES)])
        sets = world.api.job_set_ids([(world.queue.queue_id, f"set-{n}") for n in range(_JOB_SETS)])
        for cluster in _CLUSTERS:
            world.leader.bind_cluster(
                world.epoch, cluster, uid=cluster, role="executor", process=bytes(16), keep_s=15.0
            )
        specs = tuple(
            type(spec)(hash=spec.hash, body=spec.body, layout=POD_LAYOUT)
            for spec in (make_spec(b"[%d]" % n) for n in range(_SPECS))
        )
        for chunk in range(count // _CHUNK):
            labels = tuple(b'{"labels": {"n": "%d"}, "annotations": {}}' % n for n in range(200))
            handles = world.submit_jobs(
                _CHUNK,
                specs=specs,
                class_id=classes[chunk % _CLASSES],
                job_set_id=sets[chunk % _JOB_SETS],
                metadata=labels if chunk % 5 == 0 else (),
            )
            running = handles[: _CHUNK * 9 // 10]
            leases = make_leases(running, clusters=_CLUSTERS, nodes=_NODES)
            world.leader.apply(world.epoch, Effects(new_runs=leases, new_objects=make_objects(running)))
            world.leader.apply(world.epoch, Effects(object_updates=make_reports(running, 3, start_time_us=1)))
        taken = np.array([change for change, _ in world.leader.read_changes(1_000_000)][:-1], dtype=np.int64)
        world.leader.apply(world.epoch, Effects(deleted_change_ids=taken))
        world.leader.resign(world.epoch)
        with world.api._connections.read() as connection:
            connection.run("VACUUM ANALYZE")


def server_cpu_s(server: EmbeddedPostgres) -> float:
    """Return the CPU seconds of all processes of a server, ended ones included."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == server.pid:
            ticks += sum(map(int, values[11:15]))
        elif int(values[1]) == server.pid:
            ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Leader:
    """The machine, with the store at its end: what it asks for is done at once, one thing after the other.

    Args:
        store: The store, led.
        epoch: Its epoch.
        log_position: Up to where the log was applied when the epoch was taken.
    """

    def __init__(self, store: LeaderStore, epoch: int, log_position: int) -> None:
        """Begin a term."""
        self._store = store
        self._epoch = epoch
        self._marker = log_position + 1
        self.machine = LeaderMachine("default", epoch, settings=MachineSettings(), rng=np.random.default_rng(1))
        self.machine.start(self._now())
        self.serves = False
        self.untaken: JobColumns | None = None
        """What the one change that is not taken accepts."""
        self.sent_bytes = 0

    def _now(self) -> Moment:
        return Moment(time.monotonic(), time.time_ns() // 1000)

    def feed(self, event: Event) -> None:
        """Tell the machine of something, and carry out what it says."""
        todo: list[Event] = [event]
        while todo:
            for instruction in self.machine.handle(todo.pop(0), self._now()):
                if isinstance(instruction, ReadChanges):
                    todo.append(self._read_changes())
                elif isinstance(instruction, ReadRecords):
                    todo.append(RecordsRead(records=(ReadRecord(position=self._marker, epoch=self._epoch, plan=None),)))
                elif isinstance(instruction, Store):
                    effects = store_effects(instruction.transaction, instruction.time_us)
                    applied = self._store.apply(self._epoch, effects)
                    todo.append(Stored(number=instruction.number, refused=applied.refused_handles))
                elif isinstance(instruction, SendPlacements):
                    parts = placement_parts(instruction.placements, instruction.classes)
                    self.sent_bytes += sum(len(part.SerializeToString()) for part in parts)
                self.serves |= isinstance(instruction, Serve)

    def publish_marker(self) -> None:
        """Have the marker stand in the log, which asks for a load."""
        self.feed(MarkerPublished(position=self._marker))

    def _read_changes(self) -> ChangesRead:
        rows = self._store.read_changes(self.machine.budget().changes)
        changes = [Change(change_id=row, jobs=self.untaken) for row, _ in rows if self.machine.is_new(row)]
        return ChangesRead(changes=tuple(changes), references=References())

    def greet(self, cluster: str, role: Role, *, known: Members | None) -> None:
        """Take the session of a sampler, or of an executor that knows its runs."""
        settings = ClusterSettings(name=cluster)
        session = Session(cluster, role, 1, hash((cluster, role)))
        self.feed(Bound(session=session, settings=settings, known=known))


def take_over(url: str, lease_s: float) -> dict[str, float]:
    """Take the pool over as a server does; return what it took."""
    store = LeaderStore(url, "default")
    before_mib = rss_mib()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    leadership = store.try_lead("bench", "localhost:1", lease_s)
    assert leadership is not None
    done = threading.Event()
    gaps: list[float] = [began_s]

    def renew() -> None:
        while not done.wait(lease_s / 3):
            store.renew(leadership.epoch, lease_s)
            gaps.append(time.perf_counter())

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    leader = Leader(store, leadership.epoch, leadership.log_position)
    leader.publish_marker()
    rows = store.load()
    loaded_s = time.perf_counter()
    count = rows.columns.jobs.handle.size
    leader.untaken = rows.columns.jobs.only(rows.columns.jobs.handle >= rows.columns.jobs.handle[-_CHUNK])
    leader.feed(loaded_pool(rows, leadership.log_position, HotSettings(ServerConfig(database_url=""))))
    del rows
    assert leader.serves
    serves_s = time.perf_counter()
    for cluster in _CLUSTERS:
        known = placements_of(leader.machine.state, cluster).members
        leader.greet(cluster, Role.SAMPLER, known=None)
        leader.greet(cluster, Role.EXECUTOR, known=known)
    greeted_s = time.perf_counter()
    done.set()
    renewing.join()
    store.close()
    assert len(leader.machine.state.live) == count
    gaps.append(time.perf_counter())
    return {
        "jobs": count,
        "load_s": round(loaded_s - began_s, 2),
        "recover_and_catch_up_s": round(serves_s - loaded_s, 2),
        "sessions_s": round(greeted_s - serves_s, 2),
        "takeover_s": round(greeted_s - began_s, 2),
        "leader_cpu_s": round(time.process_time() - began_cpu_s, 2),
        "longest_without_renewal_s": round(max(np.diff(gaps)), 2),
        "placements_mib": round(leader.sent_bytes / 2**20),
        "memory_mib": round(rss_mib() - before_mib),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mib),
    }


def main() -> int:
    """Print one line of JSON per number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--lease-s", type=float, default=3.0)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.url:
        sys.stdout.write(json.dumps(take_over(arguments.url, arguments.lease_s)) + "\n")
        return 0
    for count in arguments.jobs:
        directory = Path(tempfile.mkdtemp(prefix="argosy-takeover-"))
        directory.chmod(0o755)
        settings = {"fsync": "off", "synchronous_commit": "off", "max_wal_size": "8GB", "autovacuum": "off"}
        server = EmbeddedPostgres(directory / "pg", settings=settings)
        try:
            url = server.start()
            migrate(url)
            fill(url, count)
            command = [sys.executable, __file__, "--url", url, "--lease-s", str(arguments.lease_s)]
            before_s = server_cpu_s(server)
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found["postgres_cpu_s"] = round(server_cpu_s(server) - before_s, 2)
            sys.stdout.write(json.dumps(found) + "\n")
        finally:
            server.stop()
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
