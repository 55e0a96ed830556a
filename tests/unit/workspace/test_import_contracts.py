"""The import contracts hold for the real tree, and each of them is seen to fail once."""

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """An import that one contract must refuse."""

    contract: str
    """Id of the contract."""
    module: str
    """Module that gets the import."""
    imports: str
    """What it imports."""


BREAKS = (
    Break(contract="layers", module="argosy_core.job", imports="argosy_store"),
    Break(contract="layers", module="argosy_store.schema.tables", imports="argosy_runtime"),
    Break(contract="layers", module="argosy_eventlog.port", imports="argosy_kube"),
    Break(contract="layers", module="argosy_runtime.health", imports="argosy_server"),
    Break(contract="layers", module="argosy_server.app", imports="argosy_cli"),
    Break(contract="layers", module="argosy_client.jobs", imports="argosy_testkit"),
    Break(contract="layers", module="argosy_local.mesh", imports="argosy_cli"),
    Break(contract="layers", module="argosy_cluster_agent.app", imports="argosy_local"),
    Break(contract="layers", module="argosy_executor.app", imports="argosy_cluster_agent"),
    Break(contract="services", module="argosy_server.app", imports="argosy_sampler"),
    Break(contract="services", module="argosy_executor.app", imports="argosy_server"),
    Break(contract="starters", module="argosy_cli.session", imports="argosy_server"),
    Break(contract="starters", module="argosy_testkit.builders", imports="argosy_cluster_agent"),
    Break(contract="light", module="argosy_cli.output", imports="numpy"),
    Break(contract="light", module="argosy_client.codec", imports="protovalidate"),
    Break(contract="pure-core", module="argosy_core.queueing", imports="asyncio"),
    Break(contract="pure-core", module="argosy_core.queueing", imports="time"),
    Break(contract="pure-core", module="argosy_core.queueing", imports="random"),
    Break(contract="pure-core", module="argosy_core.queueing", imports="argosy.lease.v1"),
    Break(contract="postgres-driver", module="argosy_server.app", imports="sqlalchemy"),
    Break(contract="postgres-driver", module="argosy_runtime.health", imports="psycopg"),
    Break(contract="pulsar-client", module="argosy_server.relay", imports="pulsar"),
    Break(contract="kubernetes-client", module="argosy_kube.kubernetes.api.transport", imports="kubernetes.client"),
    Break(contract="kubernetes-client", module="argosy_executor.app", imports="kubernetes.watch"),
    Break(contract="kubernetes-packages", module="argosy_kube.kubernetes.api.x", imports="argosy_kube.kubernetes.ours"),
    Break(
        contract="kubernetes-packages", module="argosy_kube.kubernetes.ours.x", imports="argosy_kube.kubernetes.scaling"
    ),
    Break(
        contract="scheduler-packages", module="argosy_core.scheduler.memory.x", imports="argosy_core.scheduler.rounds"
    ),
    Break(
        contract="scheduler-packages", module="argosy_core.scheduler.turns.x", imports="argosy_core.scheduler.backfill"
    ),
    Break(contract="store-packages", module="argosy_store.postgres.x", imports="argosy_store.replicas"),
    Break(contract="rpc-driver", module="argosy_store.schema.tables", imports="grpc"),
    Break(contract="rpc-driver", module="argosy_kube.port", imports="google.protobuf"),
    Break(contract="wire-types-at-edges", module="argosy_server.leader.show.notes", imports="argosy.lease.v1"),
    Break(contract="wire-types-at-edges", module="argosy_sampler.informer", imports="argosy.api.v1"),
    Break(contract="wire-types-at-edges", module="argosy_client.values", imports="argosy.api.v1"),
    Break(contract="wire-types", module="argosy_store.schema.tables", imports="argosy.lease.v1"),
    Break(contract="wire-types", module="argosy_workload.report", imports="argosy.api.v1"),
)


def write_module(tree: Path, module: str, text: str) -> None:
    """Write a module and the package files above it into `tree`."""
    *packages, name = module.split(".")
    folder = tree
    for package in packages:
        folder /= package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    folder.joinpath(f"{name}.py").write_text(text, encoding="utf-8")


def write_settings(tree: Path, *contracts: dict[str, Any]) -> None:
    """Write an import-linter file with these contracts of the project into `tree`."""

    def listed(values: list[str]) -> str:
        return "".join(f"\n    {value}" for value in values)

    lines = ["[importlinter]", f"root_packages = {listed(SETTINGS['root_packages'])}"]
    lines.append("include_external_packages = True")
    for contract in contracts:
        lines.append(f"[importlinter:contract:{contract['id']}]")
        # An exception names modules that this small tree does not have.
        settings = {key: value for key, value in contract.items() if key != "id"}
        settings["unmatched_ignore_imports_alerting"] = "none"
        lines += [f"{key} = {listed(value) if isinstance(value, list) else value}" for key, value in settings.items()]
    (tree / ".importlinter").write_text("\n".join(lines), encoding="utf-8")


LINT_EACH = """\
import contextlib, importlib, io, json, os, sys
from importlinter.cli import lint_imports

found = []
for tree in sys.argv[1:]:
    os.chdir(tree)
    sys.path.insert(0, tree)
    importlib.invalidate_caches()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = lint_imports(config_filename=".importlinter", no_cache=True)
    del sys.path[0]
    found.append([status, said.getvalue()])
json.dump(found, sys.stdout)
"""
"""Runs import-linter on the packages of each of some trees alone; one process, for it takes longest to start."""


def lint(*trees: Path) -> list[tuple[int, str]]:
    """Return for each tree what import-linter ended with and said."""
    finished = subprocess.run([sys.executable, "-c", LINT_EACH, *trees], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return [(status, said) for status, said in json.loads(finished.stdout)]


def make_tree(tree: Path) -> None:
    """Make a folder with all root packages, empty but for the wire types and layers that some breaks import."""
    tree.mkdir()
    for package in SETTINGS["root_packages"]:
        write_module(tree, f"{package}.nothing", "")
    for contract in SETTINGS["contracts"]:
        for container in contract.get("containers", ()):  # their layers must be there
            for package in re.findall(r"\w+", " ".join(contract["layers"])):
                write_module(tree, f"{container}.{package}.nothing", "")
    for package in ("argosy.lease", "argosy.api"):
        write_module(tree, f"{package}.v1", "")


def contract_named(contract_id: str) -> dict[str, Any]:
    """The project's contract with this id."""
    return next(contract for contract in SETTINGS["contracts"] if contract["id"] == contract_id)


def test_every_contract_has_a_break() -> None:
    """A contract that nothing breaks here may be one that never fails."""
    assert {contract["id"] for contract in SETTINGS["contracts"]} == {case.contract for case in BREAKS}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[Break, tuple[int, str]]:
    """Give what is said of each break, in a small tree that has no other import."""
    folder = tmp_path_factory.mktemp("broken")
    trees = [folder / str(number) for number in range(len(BREAKS))]
    for tree, case in zip(trees, BREAKS, strict=True):
        make_tree(tree)
        write_settings(tree, contract_named(case.contract))
        write_module(tree, case.module, f"import {case.imports}\n")
    return dict(zip(BREAKS, lint(*trees), strict=True))


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: f"{case.contract}:{case.module}:{case.imports}")
def test_contract_fails_when_broken(case: Break, broken: dict[Break, tuple[int, str]]) -> None:
    """A forbidden import is refused, and by the contract that says so."""
    status, said = broken[case]
    assert status == 1, said
    assert "0 kept, 1 broken" in said
    assert case.module in said


def test_contracts_hold_when_nothing_is_imported(tmp_path: Path) -> None:
    """The refusals above come from the forbidden import and from nothing else in the small tree."""
    tree = tmp_path / "tree"
    make_tree(tree)
    write_settings(tree, *SETTINGS["contracts"])
    ((status, said),) = lint(tree)
    assert status == 0, said


def test_real_tree_keeps_all_contracts() -> None:
    """What is committed obeys every contract."""
    finished = subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{len(SETTINGS['contracts'])} kept, 0 broken" in finished.stdout
