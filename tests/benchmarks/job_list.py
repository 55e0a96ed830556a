"""What `argosy jobs` costs a user when there are many jobs: wall time, CPU time and memory of the whole command.

Run it against a mesh of `argosy up`: `python tests/benchmarks/job_list.py [JOB_COUNT] [CALL_COUNT]`. It submits so many
jobs, of which none begins, lists them, cancels them, and lists them again. Bytecode is kept, as it is for users:
without it every call compiles our modules, which takes 50 ms of CPU.

Source: issue "The first hour": p95 under 300 ms and 100 MB with 100,000 jobs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

_JOBS: Final = """\
count: {count}
hold: true
spec:
  manifests:
    - kind: Pod
      apiVersion: v1
      metadata: {{name: listed}}
      spec:
        restartPolicy: Never
        containers: [{{name: main, image: busybox:1.36, resources: {{requests: {{cpu: "1", memory: 1Gi}}}}}}]
"""


def main(job_count: int, call_count: int) -> None:
    """Submit, list, cancel, list; print a line of JSON for each form of the command, before the jobs end and after."""
    argosy = str(Path(sys.executable).with_name("argosy"))
    queue = ("--queue", f"listed-{uuid.uuid4().hex[:8]}")
    subprocess.run((argosy, "queue", "create", queue[1]), check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "jobs.yaml")
        path.write_text(_JOBS.format(count=job_count))
        subprocess.run((argosy, "submit", str(path), *queue, "--job-set", "all"), check=True)
    forms = (("jobs",), ("jobs", *queue), ("jobs", *queue, "--limit", "1000"))
    for form in (*forms, ("jobs", "--state", "pending"), ("jobs", *queue, "--state", "pending")):
        print_cost(argosy, form, call_count, {"queued_job_count": job_count})
    subprocess.run((argosy, "cancel", *queue, "--yes"), check=True, stdout=subprocess.DEVNULL)
    for form in (*forms, ("jobs", "--active"), ("jobs", "--failed")):
        print_cost(argosy, form, call_count, {"ended_job_count": job_count})


def print_cost(argosy: str, form: tuple[str, ...], call_count: int, jobs: dict[str, int]) -> None:
    """Call a form of the command so many times, after once for nothing, and print what a call costs."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    walls_ms, most_kib = [], 0
    subprocess.run((argosy, *form), check=True, env=environment, stdout=subprocess.DEVNULL)
    before = os.times()
    for _ in range(call_count):
        began = time.perf_counter()
        process = subprocess.Popen(
            (argosy, *form), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        walls_ms.append((time.perf_counter() - began) * 1000)
        most_kib = max(most_kib, usage.ru_maxrss)
        if status:
            raise SystemExit(f"argosy {' '.join(form)} ended with {os.waitstatus_to_exitcode(status)}")
        process.returncode = 0
    after = os.times()
    cpu_ms = (after.children_user + after.children_system - before.children_user - before.children_system) * 1000
    walls_ms.sort()
    figures = {
        "command": f"argosy {' '.join(form)}",
        **jobs,
        "call_count": call_count,
        "wall_p50_ms": round(walls_ms[len(walls_ms) // 2]),
        "wall_p95_ms": round(walls_ms[-(-len(walls_ms) * 95 // 100) - 1]),
        "cpu_ms": round(cpu_ms / call_count),
        "memory_mib": round(most_kib / 1024),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:3], *("100000", "100")[len(sys.argv[1:3]) :])))
