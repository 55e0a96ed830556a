"""The commands there are: name, where each is, and one line about it. Imports nothing.

Source: design section 9.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMMANDS", "EXIT_CODE_TEXT", "EXTRAS", "GROUPS", "Entry", "help_text"]


class Entry(NamedTuple):
    """One command."""

    module: str
    """Module of `argosy_cli.commands` that holds it."""
    attribute: str
    """Name of the command object in the module."""
    text: str
    """One line for the list of commands."""


GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "Jobs",
        (
            "run",
            "submit",
            "plan",
            "jobs",
            "watch",
            "logs",
            "explain",
            "describe",
            "cancel",
            "reprioritize",
            "preempt",
            "hold",
            "release",
            "wait",
            "resubmit",
            "job-set",
        ),
    ),
    ("Fairness and machines", ("top", "queue", "shares", "cluster", "node", "autoscale", "apply")),
    ("A mesh on this machine", ("up", "down", "status", "demo")),
    ("Workloads and measuring", ("replay", "simulate", "trace", "bench")),
    ("Access", ("login", "logout", "whoami", "grant", "revoke", "grants", "audit", "context", "certs")),
    ("Operating", ("admin", "config")),
    ("Other dialects", ("slurm",)),
    ("Shell", ("completion",)),
)
"""Headings of the help, and the commands below each."""

COMMANDS: Final[dict[str, Entry]] = {
    "run": Entry("run", "run", "Run a command as a job, show its output, end with its exit code."),
    "submit": Entry("submit", "submit", "Submit jobs from YAML or JSON files."),
    "plan": Entry("plan", "plan", "Say what would become of jobs if they were submitted now."),
    "jobs": Entry("jobs", "jobs", "List jobs by selector, or show one."),
    "watch": Entry("watch", "watch", "Follow a job set until all its jobs ended; resumable."),
    "logs": Entry("logs", "logs", "Print what a job's container wrote; -f follows it."),
    "explain": Entry("explain", "explain", "Say where a job stands and, if it waits, why."),
    "describe": Entry("explain", "describe", "The same as explain."),
    "cancel": Entry("change_requests", "cancel", "Ask that jobs end, by id or selector."),
    "reprioritize": Entry("change_requests", "reprioritize", "Give jobs another priority, by id or selector."),
    "preempt": Entry("change_requests", "preempt", "Stop the runs of jobs, which wait again, by id or selector."),
    "hold": Entry("change_requests", "hold", "Hold jobs back, by id or selector."),
    "release": Entry("change_requests", "release", "Let held jobs go, by id or selector."),
    "wait": Entry("ended", "wait", "Return when jobs have ended."),
    "resubmit": Entry("ended", "resubmit", "Submit jobs again, by id or those that failed."),
    "job-set": Entry("job_sets", "job_set", "Show job sets, and why jobs of one failed."),
    "top": Entry("top", "top", "Show queues and clusters live."),
    "queue": Entry("queues", "queue", "Make, show, change, cordon and delete queues."),
    "shares": Entry("shares", "shares", "Show usage, flow and fair share of each queue."),
    "cluster": Entry("clusters", "cluster", "Show, cordon, invite, revoke and forget clusters."),
    "autoscale": Entry("autoscale", "autoscale", "Show pods that are resized while they run."),
    "node": Entry("clusters", "node", "Show, cordon and drain nodes."),
    "apply": Entry("apply", "apply", "Make queues, limits, grants and cordons as a file declares them."),
    "login": Entry("login", "login", "Log in at the issuer of the context in use."),
    "logout": Entry("login", "logout", "Forget what you logged in for."),
    "whoami": Entry("access", "whoami", "Show who the server takes you for, and what you may do."),
    "grant": Entry("access", "grant", "Let a user or group do something with a queue, or give a role."),
    "revoke": Entry("access", "revoke", "Take it away."),
    "grants": Entry("access", "grants", "List what is granted to whom."),
    "audit": Entry("access", "audit", "List who changed what."),
    "context": Entry("contexts", "context_group", "Keep servers by name, with how each is reached."),
    "certs": Entry("certs", "certs", "Make the certificates of a small installation, and renew them."),
    "up": Entry("local", "up", "Start a mesh with simulated clusters on this machine."),
    "down": Entry("local", "down", "Stop it."),
    "status": Entry("local", "status", "Show its processes."),
    "demo": Entry("replays", "demo", "Run more work than there is room for through a whole mesh, with a report."),
    "replay": Entry("replays", "replay", "Send a trace through a real mesh at a chosen speed."),
    "simulate": Entry("simulations", "simulate", "Run a trace in virtual time."),
    "trace": Entry("traces", "trace", "Make workload profiles of traces."),
    "bench": Entry("benches", "bench", "Measure the scheduling core or the whole mesh."),
    "admin": Entry("admin", "admin", "Prepare and check the database and the event log of an installation."),
    "config": Entry("config", "config", "Show and change settings of a pool's rounds while it is led."),
    "slurm": Entry("slurm", "slurm", "sbatch, squeue, scancel and sinfo, for those who come from Slurm."),
    "completion": Entry("completion", "completion", "Print the completion script of a shell."),
}
"""Every command."""

EXTRAS: Final[dict[str, str]] = {
    "argosy_eventlog": "admin",
    "argosy_kube": "admin",
    "argosy_local": "local",
    "argosy_store": "admin",
    "argosy_workload": "local",
}
"""Packages that only some commands need, and the extra of argosy-cli that brings each."""

EXIT_CODE_TEXT: Final = """\
Exit codes:
  0    success
  1    the server refused or failed
  2    the command line or an input file is wrong
  3    what was named does not exist
  4    the server cannot be reached, or time ran out
  5    jobs that were watched, waited for or replayed failed or were cancelled
  125  of `argosy run`: something else failed than its command, whose exit code it passes on
  130  interrupted
"""
"""What the exit codes mean; they are stable."""

_HEAD: Final = """\
Usage: argosy [OPTIONS] COMMAND [ARGS]...

  A batch scheduler for many clusters and many tenants.

Options:
  -o, --output table|wide|json|yaml|jsonl  Form of the output.
  --server HOST:PORT   API server; else ARGOSY_SERVER, else that of the context in use, else the mesh of `argosy up`,
                       else what listens at 127.0.0.1:50051.
  --home DIRECTORY     Where `argosy up` keeps its mesh; else ARGOSY_HOME, else ~/.argosy.
  --timeout SECONDS    How long to try to reach the server (default 10).
  --version            Show the version.
  -h, --help           Show this; `argosy COMMAND --help` says more.
"""


def help_text() -> str:
    """Return the help of the bare command."""
    lines = [_HEAD]
    for title, names in GROUPS:
        lines.append(f"{title}:")
        lines += [f"  {name:<13} {COMMANDS[name].text}" for name in names]
        lines.append("")
    lines.append(EXIT_CODE_TEXT)
    return "\n".join(lines)
