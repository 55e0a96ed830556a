"""The stack of docker-compose.yml as a project of compose: how it is run, asked, killed and given jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from images.engine import Compose

ROOT = Path(__file__).resolve().parents[3]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))[
    "services"
]
ONCE = {"secrets", "migrate", "setup-log"}
LASTING = sorted(name for name, service in SERVICES.items() if "profiles" not in service and name not in ONCE)
UP_S = 240.0
REAL_NODES = {"example.test/control-plane": "real"}
"""Labels of the nodes of the real cluster."""
LABEL = "com.docker.compose.project"
AGENT_FILES = ("-f", "docker-compose.yml", "-f", "tests/real/compose/cluster-agent.yml")
JOBS = """\
queue: science
jobSet: {job_set}
count: {count}
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations: {{argosy.dev/simulated-run-time: "{run_time}"}}
      spec:
        restartPolicy: Never
        nodeSelector: {{{selector}}}
        securityContext: {{runAsNonRoot: true, runAsUser: 65534, seccompProfile: {{type: RuntimeDefault}}}}
        containers:
          - name: main
            image: busybox:1.36
            securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
            resources: {{requests: {{cpu: "1", memory: 64Mi}}}}
"""


def say(line: str) -> None:
    """Tell what takes long."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


def docker(*arguments: str, timeout_s: float = 60) -> str:
    """Run a command of the engine and return its output."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def await_true(condition: Callable[[], bool], what: str, timeout_s: float) -> float:
    """Return the seconds until a condition held."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(0.2)
    return time.monotonic() - started


@dataclass
class Stack:
    """A project of compose."""

    compose: Compose
    project: str
    directory: Path
    api_port: int
    environment: dict[str, str] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, timeout_s: float = 600) -> str:
        """Run a command of compose, from the project's own folder, and return its output."""
        environment = {
            **os.environ, **self.compose.environment, "API_PORT": str(self.api_port), "ARGOSY_TAG": "testbed",
            "CLUSTER_NODES": "25:cpu=32,memory=128Gi,pods=110", "PROMETHEUS_PORT": "0", "OTLP_PORT": "0",
            **self.environment,
        }  # fmt: skip
        done = subprocess.run(
            [*self.compose.command, "-p", self.project, *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"compose {' '.join(arguments)}:\n{(done.stdout + done.stderr)[-4000:]}{self.logs()}"
        )
        return done.stdout

    def logs(self) -> str:
        """Return the last words of containers that are not well."""
        words = []
        for name, state in self.states().items():
            if state["Status"] != "running" or state.get("Health", {}).get("Status") != "healthy":
                container = state["Name"]
                done = subprocess.run(
                    ["docker", "logs", "--tail", "15", container], capture_output=True, text=True, check=False
                )
                words.append(f"\n--- {name}: {state['Status']} {state['ExitCode']}\n{done.stdout}{done.stderr}")
        return "".join(words)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return the state of each container by its service."""
        ids = docker("ps", "-aq", "--filter", f"label={LABEL}={self.project}").split()
        if not ids:
            return {}
        return {
            entry["Config"]["Labels"]["com.docker.compose.service"]: {
                **entry["State"], "Name": entry["Name"].lstrip("/"), "RestartCount": entry["RestartCount"],
                "MemoryLimit": entry["HostConfig"]["Memory"], "User": entry["Config"]["User"],
            }
            for entry in json.loads(docker("inspect", *ids))
        }  # fmt: skip

    def is_healthy(self, *others: str) -> bool:
        """Return whether all that lasts, and others of profiles, are healthy and all that is done once is done."""
        states = self.states()
        lasting = (*LASTING, *others)
        return all(states.get(name, {}).get("Health", {}).get("Status") == "healthy" for name in lasting) and all(
            states.get(name, {}).get("Status") == "exited" and states[name]["ExitCode"] == 0 for name in ONCE
        )

    def memory_mib(self) -> dict[str, float]:
        """Return what each lasting container uses."""
        units = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
        used = {}
        names = {state["Name"]: name for name, state in self.states().items() if name in LASTING}
        form = "{{.Name}} {{.MemUsage}}"
        for line in docker("stats", "--no-stream", "--format", form, *names).splitlines():
            name, amount = line.split()[:2]
            used[names[name]] = float(amount[:-3]) * units[amount[-3:]]
        return used

    def kill(self, service: str) -> None:
        """Kill a service's first process from outside, as the machine's memory killer would; the engine restarts it."""
        pid = self.states()[service]["Pid"]
        script = f"import os; os.kill({pid}, 9)"
        image = "argosy/argosy:testbed"
        docker(
            "run",
            "--rm",
            "--pid=host",
            "--cap-drop=ALL",
            "--cap-add=KILL",
            "-u",
            "0",
            "--entrypoint",
            "python",
            image,
            "-c",
            script,
        )

    def argosy(self, *arguments: str, timeout_s: float = 120, expected: int = 0) -> str:
        """Run the command of the host."""
        done = subprocess.run(
            [sys.executable, "-m", "argosy_cli", *arguments], env=self.command_environment(),
            capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == expected, f"argosy {' '.join(arguments)}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def command_environment(self) -> dict[str, str]:
        """Return the variables with which the host's command finds its contexts."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
        return {**kept, "ARGOSY_CONFIG": str(self.directory / "config.toml")}

    def use(self) -> None:
        """Let the host's command reach the stack, by the very line that docs/deploy.md gives."""
        bundle = self.run("run", "--rm", "-T", "access")
        command = [sys.executable, "-m", "argosy_cli", "context", "import", "compose"]
        environment = self.command_environment()
        subprocess.run(command, input=bundle, text=True, env=environment, check=True, capture_output=True, timeout=60)

    def submit(self, job_set: str, *, count: int, run_time: str, selector: str = "") -> None:
        """Submit jobs."""
        path = self.directory / f"{job_set}.yaml"
        path.write_text(JOBS.format(job_set=job_set, count=count, run_time=run_time, selector=selector))
        self.argosy("submit", "-f", str(path))

    def connected_clusters(self) -> set[str]:
        """Return the clusters whose sampler and executor the leader has greeted."""
        listed = json.loads(self.argosy("-o", "json", "cluster", "list"))
        return {entry["name"] for entry in listed if entry["samplerConnected"] and entry["executorConnected"]}

    def succeeded_count(self, job_set: str) -> int:
        """Return how many jobs of a job set are told as succeeded."""
        selector = ("--queue", "science", "--job-set", job_set, "--state", "succeeded", "--limit", "100000")
        shown = self.argosy("--timeout", "30", "-o", "jsonl", "jobs", *selector)
        return len(shown.splitlines())
