"""Measures the store's hot path on an embedded Postgres with fsync on; prints one line of JSON per batch size.

Per job: submit (deduplication, job, changes), lease (run, object), running (object), succeeded (object, run, job). That
is 4 rows inserted and 4 updated. CPU is that of this process and that of all processes of Postgres, user and system.
A last line says what a list of jobs by queue, state and label costs here, its texts made anew for each call and kept.

Usage: python tests/benchmarks/store_path.py [--jobs 20000] [--batch 100 300 1000] [--no-client-ids]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import numpy as np
import psycopg

from argosy_store import (
    ApiStore,
    Effects,
    EmbeddedPostgres,
    EventRow,
    JobFilter,
    LabelRequirement,
    LeaderStore,
    SubmitRequest,
    ensure_partitions,
    migrate,
)
from argosy_store.postgres.connection import compiled
from argosy_testkit.submissions import (
    make_job_ends,
    make_leases,
    make_objects,
    make_reports,
    make_request,
    make_run_ends,
)

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_NODES = tuple(f"node-{number}" for number in range(500))


def server_cpu_s(server: EmbeddedPostgres) -> float:
    """Return the CPU seconds of all processes of a server, ended ones included."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            values = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(entry.name) == server.pid:
            ticks += sum(int(value) for value in values[11:15])
        elif int(values[1]) == server.pid:
            ticks += int(values[11]) + int(values[12])
    return ticks * _TICK_S


class Meter:
    """Adds up wall time, CPU here and in Postgres, and log bytes of one phase."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        """Begin with nothing."""
        self._server = server
        self.values = dict.fromkeys(("wall_s", "client_s", "server_s", "wal_bytes"), 0.0)

    def _read(self) -> dict[str, float]:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
        assert row is not None
        return {
            "server_s": server_cpu_s(self._server),
            "wal_bytes": float(row[0]),
            "wall_s": time.perf_counter(),
            "client_s": time.process_time(),
        }

    def __enter__(self) -> Self:
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        wall, client = time.perf_counter(), time.process_time()
        after = self._read()
        after["wall_s"], after["client_s"] = wall, client
        for key, value in after.items():
            self.values[key] += value - self._before[key]

    def per_job(self, count: int) -> dict[str, float]:
        """Return the figures per job."""
        return {
            "jobs_per_s": round(count / self.values["wall_s"]),
            "client_us": round(self.values["client_s"] / count * 1e6, 2),
            "postgres_us": round(self.values["server_s"] / count * 1e6, 2),
            "wal_bytes": round(self.values["wal_bytes"] / count),
        }


def hot_shares(url: str) -> dict[str, float]:
    """Return the share of updates that were HOT by table, partitions together."""
    shares: dict[str, tuple[int, int]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        for name, updated, hot in connection.execute(
            "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE n_tup_upd > 0"
        ):
            table = name.partition("_d2")[0]
            total, kept = shares.get(table, (0, 0))
            shares[table] = (total + updated, kept + hot)
    return {table: round(hot / updated, 4) for table, (updated, hot) in sorted(shares.items())}


def changes_of(parts: object) -> bytes:
    """Return a payload as large as a real one: 48 bytes a job."""
    return b"".join(bytes(48 * int(keep.sum())) for _, keep in parts)  # type: ignore[attr-defined]


def run(server: EmbeddedPostgres, batch: int, count: int, *, client_ids: bool) -> dict[str, object]:
    """Measure one batch size."""
    api, leader = ApiStore(server.url), LeaderStore(server.url, "default")
    day = int(time.time() // 86400)
    leadership = leader.try_lead("benchmark", "localhost:1", 600)
    assert leadership is not None
    queue = api.create_queue("benchmark", weight=1, pool="default", create_time_us=1, encode=lambda _: b"")
    job_set = api.job_set_ids([(queue.queue_id, f"set-{batch}")])[0]
    class_id = api.class_ids([b"{}"])[0]
    rounds = count // batch
    requests: list[SubmitRequest] = []
    for _ in range(rounds):
        first = api.reserve_numbers(batch)
        ids = [f"client-{number:012d}" for number in range(first, first + batch)] if client_ids else ()
        requests.append(
            make_request(
                first=first, count=batch, day=day, queue_id=queue.queue_id, job_set_id=job_set, class_id=class_id,
                client_ids=ids,
            )
        )  # fmt: skip
    handles = [request.handles for request in requests]
    leases = [(make_leases(chunk, nodes=_NODES[:batch]), make_objects(chunk)) for chunk in handles]
    position, number = leadership.log_position, 0
    phases = {name: Meter(server) for name in ("submit", "lease", "running", "finished")}
    with phases["submit"]:
        for request in requests:
            api.submit([request], changes_of)
    changes = iter(leader.read_changes(1_000_000))
    with phases["lease"]:
        for chunk, (runs, objects) in zip(handles, leases, strict=True):
            taken = np.array([next(changes)[0]])
            now_us = time.time_ns() // 1000
            number += 2 * len(chunk)
            event = EventRow(
                job_set_id=job_set,
                first_number=number - 2 * len(chunk) + 1,
                last_number=number,
                create_time_us=now_us,
                payload=bytes(32 * len(chunk)),
            )
            leader.apply(
                leadership.epoch,
                Effects(
                    log_position=(position, position + 1), round_state=bytes(200), deleted_change_ids=taken,
                    new_runs=runs, new_objects=objects, events=[event],
                ),
            )  # fmt: skip
            position += 1
    with phases["running"]:
        for chunk in handles:
            leader.apply(leadership.epoch, Effects(object_updates=make_reports(chunk, 3)))
    with phases["finished"]:
        for chunk in handles:
            leader.apply(
                leadership.epoch,
                Effects(
                    object_updates=make_reports(chunk, 4),
                    run_updates=make_run_ends(chunk),
                    job_updates=make_job_ends(chunk),
                ),
            )
    done = rounds * batch
    figures = {name: meter.per_job(done) for name, meter in phases.items()}
    total = {
        key: round(sum(phase[key] for phase in figures.values()), 2)
        for key in ("client_us", "postgres_us", "wal_bytes")
    }
    leader.resign(leadership.epoch)
    api.close()
    leader.close()
    return {"batch": batch, "jobs": done, "total": total, **figures}


def list_costs(server: EmbeddedPostgres, *, rounds: int = 5, calls: int = 100) -> dict[str, float]:
    """Return the CPU of a list of one job, ms of this process a call, with and without texts that are kept."""
    api = ApiStore(server.url)
    spent_s = {"built_each_time": 0.0, "built_once": 0.0}
    for _ in range(rounds):
        for way in spent_s:
            began_s = time.process_time()
            for number in range(calls):
                if way == "built_each_time":
                    compiled.cache_clear()
                labels = (LabelRequirement(key="app", operator="NotIn", values=(str(number),)),)
                api.list_jobs(JobFilter(queue_id=1, states=frozenset({2, 4}), labels=labels), limit=1)
            spent_s[way] += time.process_time() - began_s
    api.close()
    return {f"{way}_ms": round(spent / rounds / calls * 1000, 3) for way, spent in spent_s.items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--no-client-ids", action="store_true")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="argosy-bench-"))
    directory.chmod(0o755)
    try:
        with EmbeddedPostgres(directory / "server") as server:
            migrate(server.url)
            ensure_partitions(server.url)
            for batch in arguments.batch:
                sys.stdout.write(
                    json.dumps(run(server, batch, arguments.jobs, client_ids=not arguments.no_client_ids)) + "\n"
                )
            sys.stdout.write(json.dumps({"hot_share": hot_shares(server.url)}) + "\n")
            sys.stdout.write(json.dumps({"list": list_costs(server)}) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
