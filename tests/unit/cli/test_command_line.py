"""The command line without a server: help, mistakes, completion, imports."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from argosy_cli import trace_options
from argosy_cli.catalogue import COMMANDS, GROUPS, help_text
from argosy_cli.commands import replays
from argosy_cli.exits import exit_code_of_jobs
from argosy_cli.options import FiniteRange
from argosy_cli.root import cli
from argosy_cli.selectors import JOB_STATE_NAMES
from argosy_client import JOB_STATES
from argosy_workload import model, timing, traces

HEAVY = ("click", "grpc", "numpy", "google", "rich", "yaml", "asyncio", "psycopg", "argosy_client")
SLOW_TO_LOAD = ("numpy", "protovalidate", "matplotlib", "psycopg", "sqlalchemy", "pulsar")
LOCAL = (
    "argosy_local",
    "argosy_workload",
    "argosy_server",
    "argosy_sampler",
    "argosy_executor",
    "argosy_cluster_agent",
)
ADMIN = ("argosy_store", "argosy_eventlog")
ACCESS = {"whoami", "grant", "revoke", "grants", "audit"}


def run_alone(program: str, *, missing: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own, in which some packages are not installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
    return subprocess.run([sys.executable, "-c", hidden + program], capture_output=True, text=True, check=False)


def loaded_by(program: str, names: tuple[str, ...]) -> str:
    """Return which of the packages an interpreter has loaded after a program, as text of a list."""
    done = run_alone(f"{program}\nprint([name for name in {names!r} if name in sys.modules])")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_help_imports_nothing_heavy() -> None:
    """`argosy --help` must come in under 100 ms, which importing any of these would use up."""
    program = "sys.argv = ['argosy', '--help']; from argosy_cli.__main__ import main; assert main() == 0"

    assert loaded_by(program, (*HEAVY, *SLOW_TO_LOAD, *LOCAL)) == "[]"
    assert "Exit codes:" in run_alone(program).stdout


def test_client_imports_no_arrays_no_validation_and_no_driver() -> None:
    """A program of a user's own that only submits and watches loads gRPC and little else."""
    assert loaded_by("import argosy_client.documents", (*SLOW_TO_LOAD, *LOCAL, *ADMIN, "click", "rich")) == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_imports_no_client_and_nothing_of_an_extra(name: str) -> None:
    """Options alone need neither gRPC nor arrays; help is there before extras are installed."""
    program = f"from argosy_cli.root import run; assert run([{name!r}, '--help']) == 0"
    names = (*SLOW_TO_LOAD, *LOCAL, *ADMIN, "grpc", "google", "rich")

    assert loaded_by(program, names) == "[]"


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        (["up"], LOCAL, "local"),
        (["status"], LOCAL, "local"),
        (["demo"], LOCAL, "local"),
        (["simulate"], LOCAL, "local"),
        (["bench", "mesh"], LOCAL, "local"),
        (["bench", "core"], LOCAL, "local"),
        (["trace", "show", "x"], LOCAL, "local"),
        (["admin", "check", "--database-url", "postgresql:///x"], ADMIN, "admin"),
        (["admin", "check-log", "--event-log-url", "pulsar://b:1"], ADMIN, "admin"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_command_whose_extra_is_missing_says_which_to_install(
    command: list[str], missing: tuple[str, ...], extra: str
) -> None:
    """The light command is whole without them: it ends as a wrong command line does, without a traceback."""
    program = f"from argosy_cli.root import run; sys.exit(run({command!r}))"

    done = run_alone(program, missing=missing)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: this needs argosy-cli[{extra}], which is not installed: pip install 'argosy-cli[{extra}]'\n"
    )


def test_server_is_found_and_database_asked_for_where_no_mesh_can_be_started(tmp_path: Path) -> None:
    """Without the extra no mesh of `argosy up` is looked for, and what is left to name is named."""
    begin = "from argosy_cli.root import run; import argosy_cli.session as s; s.DEFAULT_ADDRESS = '127.0.0.1:1'\n"
    home = f"'--home', {str(tmp_path)!r}"

    jobs = run_alone(f"{begin}sys.exit(run([{home}, 'jobs', '--queue', 'q']))", missing=LOCAL)
    database = run_alone(f"{begin}sys.exit(run([{home}, 'admin', 'check']))", missing=LOCAL)

    assert (jobs.returncode, "name a server with --server" in jobs.stderr) == (4, True)
    assert (database.returncode, "Which database?" in database.stderr) == (2, True)


def test_module_that_no_extra_brings_is_a_fault() -> None:
    """A broken installation is not taken for a light one."""
    done = run_alone(
        "from argosy_cli.root import run; sys.exit(run(['--server', 'h:1', 'jobs', '--queue', 'q']))", missing=("grpc",)
    )

    assert (done.returncode, "a fault in argosy itself" in done.stderr) == (1, True)


def test_replay_ends_within_what_the_plans_take_by_default() -> None:
    """The help says the number of the module that plans, without loading it."""
    assert (replays.WITHIN_S, replays.DEMO_S) == (timing.WITHIN_S, timing.DEMO_S)


def test_formats_are_those_that_tell_jobs() -> None:
    """The help of --format and of --estimates says those of the module that reads, without loading it."""
    assert trace_options.FORMATS == traces.JOB_FORMATS
    assert trace_options.ESTIMATES == model.ESTIMATES


def test_every_command_is_listed_once_and_loads() -> None:
    """The table of commands and the modules agree."""
    listed = [name for _, names in GROUPS for name in names]

    assert sorted(listed) == sorted(COMMANDS)
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert name in help_text()


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return all commands below a command, with their paths."""
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        found += leaves(inner, (*path, name))
    return found


def test_every_command_takes_an_output_form_and_says_what_it_does() -> None:
    """`-o table|wide|json|yaml|jsonl` everywhere (but where a script or a file is printed) and help for each option."""
    for path, command in leaves(cli):
        options = {option for parameter in command.params for option in parameter.opts}
        assert "-o" in options or path in {("completion",), ("context", "export")}, path
        assert command.help, path
        for parameter in command.params:
            assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), (path, parameter.name)


def test_only_commands_that_talk_to_a_server_take_one() -> None:
    """`--server` stands behind the commands of which it changes something, and no others."""
    taking = {
        path[0] if path[0] != "admin" else path
        for path, command in leaves(cli)
        if "--server" in {option for parameter in command.params for option in parameter.opts}
    }
    of_jobs = {
        "run",
        "plan",
        "submit",
        "jobs",
        "watch",
        "logs",
        "explain",
        "describe",
        "wait",
        "resubmit",
        "job-set",
        "top",
        "slurm",
    }
    changing = {"cancel", "reprioritize", "preempt", "hold", "release"}
    of_machines = {"config", "queue", "shares", "cluster", "node", "apply", "replay", "autoscale"}
    assert taking == of_jobs | changing | of_machines | ACCESS


def test_every_option_that_is_a_number_has_a_range() -> None:
    """So that no number that means nothing gets further than the command line; `nan` passes a plain range of floats."""
    kinds = {
        (*path, parameter.opts[0]): type(parameter.type)
        for path, command in [((), cli), *leaves(cli)]
        for parameter in command.params
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)
    }
    assert {kind for kind in kinds.values() if kind not in {click.IntRange, FiniteRange}} == set(), kinds


def test_job_states_of_options_are_those_of_the_client() -> None:
    """The list is repeated only so that --help need not import the client."""
    assert JOB_STATE_NAMES == JOB_STATES


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(["qeue"], 2, "There is no command 'qeue'. Did you mean 'queue'?", id="misspelt command"),
        pytest.param(["cordon"], 2, "There is no command 'cordon'. `argosy --help` lists them.", id="no near command"),
        pytest.param(["queue", "create"], 2, "Missing argument 'NAME'", id="argument missing"),
        pytest.param(["queue", "list", "-o", "xml"], 2, "'xml' is not one of", id="output form"),
        pytest.param(["queue", "create", "q", "--weight", "-1"], 2, "-1.0 is not in the range", id="out of range"),
        pytest.param(["queue", "create", "q", "--weight", "x"], 2, "'x' is no number.", id="no number"),
        pytest.param(["jobs", "--limit", "x"], 2, "'x' is no whole number.", id="no whole number"),
        pytest.param(["run", "echo", "hi"], 125, "write the command behind --", id="command without dashes"),
        pytest.param(["queue", "update", "q"], 2, "nothing to change", id="nothing to change"),
        pytest.param(["jobs", "x", "--queue", "q"], 2, "not both", id="id and selector"),
        pytest.param(["cancel"], 2, "give job ids, or a selector", id="nothing selected"),
        pytest.param(["cancel", "x", "--queue", "q"], 2, "not both", id="cancel both"),
        pytest.param(["submit", "-f", "/nowhere.yaml"], 2, "/nowhere.yaml: cannot be read", id="no file"),
        pytest.param(["shares"], 4, "no server: start a mesh with `argosy up`", id="no server"),
        pytest.param(["status"], 3, "no mesh runs in", id="no mesh"),
        pytest.param(["trace", "show", "/nowhere.swf"], 2, "/nowhere.swf", id="no trace"),
        pytest.param(["replay", "/nowhere.swf"], 2, "/nowhere.swf: there is no such file", id="nothing to replay"),
        pytest.param(["simulate", "/nowhere.swf"], 2, "/nowhere.swf: there is no such", id="nothing to simulate"),
        pytest.param(["demo", "--seed", "-1"], 2, "-1 is not in the range", id="seed of the demo"),
        pytest.param(["bench", "core", "--seed", "-1"], 2, "-1 is not in the range", id="seed of the bench"),
        pytest.param(["up", "--node", "cores=32"], 2, "did you mean cpu?", id="no cores"),
        pytest.param(["up", "--node", "cpu=1,memory=128GB"], 2, "did you mean 128G or 128Gi?", id="no unit"),
        pytest.param(["up", "--speed", "nan"], 2, "nan is not a finite number", id="speed that is no number"),
        pytest.param(["replay", "x", "--within", "inf"], 2, "inf is not a finite number", id="endless"),
        pytest.param(["--server", "foo", "cluster", "list"], 2, "'foo', of --server or", id="no port"),
        pytest.param(["--server", "http://foo:1", "shares"], 2, "is no HOST:PORT", id="a URL"),
        pytest.param(["--server", "foo:0", "shares"], 2, "is no HOST:PORT", id="port 0"),
        pytest.param(["--server", "foo:65536", "shares"], 2, "is no HOST:PORT", id="port too large"),
        pytest.param(
            ["--timeout", "0.1", "--server", "127.0.0.1:1", "shares"],
            4,
            "server 127.0.0.1:1 cannot be reached: nothing takes connections there (Connection refused); see that it",
            id="server away",
        ),
        pytest.param(
            ["--timeout", "0.1", "--server", "nohost.invalid:1", "shares"],
            4,
            "server nohost.invalid:1 cannot be reached: no host named nohost.invalid is known; see that it runs",
            id="unknown host",
        ),
        pytest.param(["replay", "alibaba-gpu-2023", "--report", "x.pdf"], 2, "must be one of .html", id="report form"),
        pytest.param(["replay", "alibaba-gpu-2023", "--speed", "2", "--within", "9"], 2, "not both", id="two speeds"),
    ],
)
def test_mistake_is_a_message_and_an_exit_code(offline: Any, arguments: list[str], code: int, text: str) -> None:
    """Never a traceback; the message says what to do."""
    outcome = offline(*arguments)

    assert outcome.code == code
    assert text in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        pytest.param({"succeeded": 3}, 0, id="all succeeded"),
        pytest.param({"succeeded": 3, "failed": 0, "cancelled": 0}, 0, id="none otherwise"),
        pytest.param({"succeeded": 3, "failed": 1}, 5, id="one failed"),
        pytest.param({"succeeded": 3, "cancelled": 1}, 5, id="one cancelled"),
    ],
)
def test_jobs_that_ended_otherwise_than_well_have_an_exit_code_of_their_own(counts: dict[str, int], code: int) -> None:
    """Scripts need not read a report to know whether all went well."""
    assert exit_code_of_jobs(counts) == code


def test_down_without_a_mesh_is_fine(offline: Any) -> None:
    """Stopping twice is not an error."""
    outcome = offline("down")

    assert (outcome.code, outcome.err) == (0, "no mesh was running\n")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_script_calls_argosy(offline: Any, shell: str) -> None:
    """The script asks the command itself what can follow."""
    outcome = offline("completion", shell)

    assert outcome.code == 0
    assert "_ARGOSY_COMPLETE" in outcome.out


def test_completion_knows_commands_without_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way to the help does not stand in completion's way."""
    done = subprocess.run(
        [sys.executable, "-m", "argosy_cli"],
        env={
            "_ARGOSY_COMPLETE": "bash_complete",
            "COMP_WORDS": "argosy re",
            "COMP_CWORD": "1",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == [
        "plain,reprioritize",
        "plain,release",
        "plain,resubmit",
        "plain,revoke",
        "plain,replay",
    ]


def test_fault_of_ours_is_no_traceback_unless_asked_for(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what nobody expected ends with one line."""
    monkeypatch.setattr("argosy_cli.session._target", lambda _: 1 / 0)

    outcome = offline("shares")

    assert outcome.code == 1
    assert "a fault in argosy itself: ZeroDivisionError" in outcome.err
    monkeypatch.setenv("ARGOSY_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        offline("shares")


def test_reader_who_has_seen_enough_is_no_fault(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`argosy jobs | head -1` ends well under `set -o pipefail`, whatever is written after its reader went."""

    def write_on(_: object) -> str:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    closed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "dup2", lambda *files: closed.append(files))
    monkeypatch.setattr("argosy_cli.session._target", write_on)
    assert offline("shares").code == 0
    assert closed  # or the interpreter fails at its end


def test_interrupt_is_exit_code_130(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is no fault."""

    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("argosy_cli.session._target", interrupt)

    assert offline("shares").code == 130
