"""The whole way of a job through the stores, each side by a URL of its own, as processes with their own roles go it."""

from __future__ import annotations

import numpy as np

from argosy_core.job.states import JobState, ObjectState
from argosy_store import ApiStore, Effects, LeaderStore, ensure_partitions, retain
from argosy_store.log import PostgresLog
from argosy_store.schema.migrate import check
from argosy_testkit.postgres import today
from argosy_testkit.store_world import encode_change_requests, encode_parts
from argosy_testkit.submissions import (
    make_job_ends,
    make_leases,
    make_objects,
    make_reports,
    make_request,
    make_run_ends,
)

__all__ = ["go_whole_way"]

_DAY_US = 86_400_000_000


def go_whole_way(api_url: str, leader_url: str, *, pool: str) -> None:
    """Do what an API replica and a leader do: jobs, change requests, queues, clusters, log, partitions, retention.

    Args:
        api_url: By which the API comes.
        leader_url: By which the leader comes.
        pool: Pool, which names what is made.
    """
    check(api_url)
    api, leader = ApiStore(api_url), LeaderStore(leader_url, pool)
    log, at_leader = PostgresLog(leader_url, pool), ApiStore(leader_url)
    try:
        queue = api.create_queue(f"q-{pool}", weight=1.0, pool=pool, create_time_us=1, encode=lambda _: b"q")
        ids = {
            "queue_id": queue.queue_id,
            "job_set_id": api.job_set_ids([(queue.queue_id, "s")])[0],
            "class_id": api.class_ids([b'{"requests":{"cpu":1}}'])[0],
        }
        leadership = leader.try_lead("l", "h:1", 60)
        assert leadership is not None
        ended = _run_jobs(api, leader, leadership.epoch, pool=pool, **ids)
        assert [api.get_job(handle).state for handle in ended] == [JobState.SUCCEEDED, JobState.CANCELLED]  # type: ignore[union-attr]
        assert log.append(leadership.epoch, 1, b"record") == 1
        assert len(log.read(0, 10)) == 1
        log.trim(2)
        leader.bind_cluster(leadership.epoch, f"c-{pool}", uid="u", role="executor", process=bytes(16), keep_s=0.0)
        api.set_node_cordon(f"c-{pool}", "n1", cordoned=True, encode=lambda _: b"c")
        api.set_cluster_cordon(f"c-{pool}", cordoned=True, reason="r", encode=lambda _: b"c")
        at_leader.forget_cluster(f"c-{pool}", encode=lambda _: b"c")  # where a server forwards it to
        api.set_queue_cordon(queue.name, cordoned=True, reason="r", encode=lambda _: b"q")
        api.delete_queue(queue.name, encode=lambda _: b"q")
        leader.load()
        ensure_partitions(api_url, today() - 20, days_ahead=0)
        assert retain(leader_url, 7).dropped_days == (today() - 20,)
        ensure_partitions(leader_url, days_ahead=4)
        leader.renew(leadership.epoch, 60)
        leader.resign(leadership.epoch)
    finally:
        for store in (api, leader, log, at_leader):
            store.close()


def _run_jobs(api: ApiStore, leader: LeaderStore, epoch: int, *, pool: str, **ids: int) -> list[int]:
    """Submit three jobs; finish one, cancel one, leave one waiting."""
    client_ids, payloads = ("a", "b", "c"), (b"1", b"2", b"3")
    request = make_request(
        first=api.reserve_numbers(3),
        count=3,
        day=today(),
        pool=pool,
        client_ids=client_ids,
        payloads=payloads,
        queue_id=ids["queue_id"],
        job_set_id=ids["job_set_id"],
        class_id=ids["class_id"],
    )
    (result,) = api.submit([request], encode_parts)
    (repeat,) = api.submit([request], encode_parts)
    assert repeat.handles.tolist() == result.handles.tolist()
    done, cancelled, waiting = np.split(result.handles, 3)
    changes = leader.read_changes(100)
    leader.apply(
        epoch,
        Effects(
            deleted_change_ids=np.array([row[0] for row in changes]),
            new_runs=make_leases(done),
            new_objects=make_objects(done),
        ),
    )
    leader.apply(epoch, Effects(object_updates=make_reports(done, ObjectState.RUNNING)))
    leader.apply(epoch, Effects(run_updates=make_run_ends(done), job_updates=make_job_ends(done)))
    api.set_change_requests(pool, waiting, "reprioritize", encode=encode_change_requests, priority=3)
    api.set_change_requests(pool, np.concatenate([cancelled, waiting]), "cancel", encode=encode_change_requests)
    leader.apply(epoch, Effects(queued_counts={ids["queue_id"]: 0}, contacts={("nobody", "executor"): (1, 1)}))
    return [*done.tolist(), *cancelled.tolist()]
