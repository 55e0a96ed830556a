"""Debug."""
from __future__ import annotations
import asyncio, os, time, shutil
import numpy as np, pytest
from argosy_kube.port import Selector
from .conftest import Bench, make_bag
KILLS=int(os.environ.get("KILLS","12"))

@pytest.mark.timeout(600)
async def test_debug(bench: Bench) -> None:
    rng = np.random.default_rng(int(os.environ.get("SEED","7")))
    leader = bench.leader
    bags = (
        make_bag(namespace=bench.namespace),
        make_bag(namespace=bench.namespace, run_time="0.5s"),
        make_bag(namespace=bench.namespace, kinds=("ConfigMap", "Secret", "Pod", "Pod")),
    )
    handles: list[int] = []
    t0=time.time()
    for i in range(KILLS):
        t=time.time()
        before = leader.welcomed_count
        process = await bench.start_executor()
        await leader.until(lambda before=before: leader.welcomed_count > before)
        t1=time.time()
        handles += [await leader.lease(bags[number % len(bags)]) for number in range(8)]
        open_handles = [handle for handle in handles if not leader.newest(handle).has_ended]
        await leader.stop(*rng.choice(open_handles, 2, replace=False).tolist())
        await asyncio.sleep(float(rng.uniform(0.0, 0.25)))
        await bench.kill(process)
        print("life", i, round(t1-t,2), round(time.time()-t,2), len(open_handles), flush=True)
    await bench.start_executor()
    print("lives", time.time()-t0, flush=True)
    long_handles = [handle for handle in handles if b'"1h"' in leader.newest(handle).bag]
    await leader.until(
        lambda: all(
            leader.newest(handle).has_ended
            or (not leader.newest(handle).is_stopped and handle in long_handles and leader.newest(handle).end == "RUNNING")
            for handle in handles))
    live = sorted(key for key, run in leader.runs.items() if not run.has_ended)
    print("stable", time.time()-t0, len(live), flush=True)
    ok=False
    for _ in range(35):
        lo = await bench.left_over()
        extra, missing = sorted(set(lo)-set(live)), sorted(set(live)-set(lo))
        print(round(time.time()-t0,1), "extra", extra, "missing", missing, flush=True)
        if lo==live:
            ok=True
            break
        await asyncio.sleep(1)
    if not ok:
        ev = await bench.cluster.list_objects(Selector.OURS)
        for p in range(len(ev)):
            k=(int(ev.handle_column[p]), int(ev.attempt_column[p]))
            if k in extra:
                print(k, ev.object_column[p], ev.kinds[ev.kind_column[p]], ev.phase_column[p], leader.runs[k] and (leader.runs[k].kinds, leader.runs[k].states, leader.runs[k].history, leader.runs[k].is_stopped, leader.runs[k].text))
        for k in missing: print("missing", k, leader.runs[k])
        print(await bench.kubectl("-n", bench.namespace, "get", "pods,configmaps,secrets", "-o", "yaml", "-l", "argosy.dev/run in (%s)" % ",".join(f"{h}-{a}" for h,a in extra[:3])))
    shutil.copytree(bench.directory, "/tmp/dbgbench", dirs_exist_ok=True)
    assert ok
    await leader.stop(*(handle for handle, _ in live))
    await leader.until(lambda: all(run.has_ended for run in leader.runs.values()))
    print("all stopped", time.time()-t0)
    for _ in range(60):
        if not await bench.left_over(): break
        await asyncio.sleep(0.5)
    print("end", time.time()-t0, await bench.left_over())
