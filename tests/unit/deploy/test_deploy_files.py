"""Compose file, image file and manifests: every setting in them is one that our services know."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from images.upstream_images import IMAGES
from testbed.network_policies import is_admitted, pod_labels

from argosy_agent.config import AgentConfig
from argosy_cli.commands.admin_log import setup_log
from argosy_cli.options import Settings
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.errors import BackendUnavailable
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_executor.config import ExecutorConfig
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import LIVENESS_SERVICE
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ENVIRONMENT = dict(
    line.split("=", 1)
    for line in (ROOT / ".env").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
DOCKERFILE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
CONFIGS: dict[str, type[Any]] = {
    "SERVER": ServerConfig,
    "SAMPLER": SamplerConfig,
    "EXECUTOR": ExecutorConfig,
    "CLUSTER_AGENT": ClusterAgentConfig,
    "AGENT": AgentConfig,
}
OF_THE_COMMAND = {"ARGOSY_DATABASE_URL"}
ONCE = {"secrets", "access", "migrate", "setup-log"}
VARIABLE = re.compile(r"\$\{(\w+)\}")


def texts(value: object) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def filled(text: object) -> str:
    """A value with the variables of .env in it."""
    return VARIABLE.sub(lambda match: ENVIRONMENT[match[1]], str(text))


def check_environment(environment: dict[str, str]) -> None:
    """Load the configuration that a container's variables make."""
    prefixes = {prefix for prefix in CONFIGS for key in environment if key.startswith(f"ARGOSY_{prefix}_")}
    ours = {key for key in environment if key.startswith("ARGOSY_")} - OF_THE_COMMAND
    assert {key for key in ours if not any(key.startswith(f"ARGOSY_{prefix}_") for prefix in prefixes)} == set()
    for prefix in prefixes:
        own = {key: value for key, value in environment.items() if key.startswith(f"ARGOSY_{prefix}_")}
        load_config(CONFIGS[prefix], [], own)


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in ONCE])
def test_service_loads_the_configuration_that_compose_gives_it(name: str) -> None:
    """No variable is misspelt, and none that a service needs is missing."""
    given = SERVICES[name].get("environment", {})
    check_environment({key: filled(value) for key, value in given.items()})


def test_queues_of_secured_installations_begin_at_the_level_restricted() -> None:
    """Whatever takes jobs in compose and kustomize says so; more is granted by policies of queues."""
    (base,) = [pod.values[0] for pod in PODS if "ARGOSY_SERVER_API_POD_SECURITY_LEVEL" in values_of(pod.values[0])]
    composed = {key: filled(value) for key, value in SERVICES["api"]["environment"].items()}
    for values in (values_of(base), composed):
        own = {key: value for key, value in values.items() if key.startswith("ARGOSY_SERVER_")}
        config = load_config(ServerConfig, [], own)
        assert (config.role, config.api.pod_security_level) == ("api", "restricted")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_example_is_fit_for_a_secured_installation(path: Path) -> None:
    """What the pages tell a newcomer to submit keeps to the level restricted, pods of groups and of others included."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    pods = [{"apiVersion": "v1", "kind": "Pod", **group["template"]} for group in spec.get("groups", ())]
    limits = replace(SpecLimits(), rights=PodRights(level=PodLevel.RESTRICTED))
    for pod in pods or [None]:
        bag = [*spec["manifests"], *([pod] if pod else [])]
        assert read_bag([json.dumps(one).encode() for one in bag], limits).violations == ()


QUICK_STARTS = [
    ROOT / "examples" / "clients" / name
    for name in (
        "cpp/main.cpp",
        "csharp/Program.cs",
        "go/main.go",
        "java/src/main/java/dev/argosy/examples/QuickStart.java",
        "python/quickstart.py",
        "rust/src/main.rs",
        "typescript/src/main.ts",
    )
]


@pytest.mark.parametrize("path", QUICK_STARTS, ids=lambda path: path.suffix[1:])
def test_quick_start_of_a_client_is_fit_for_a_secured_installation(path: Path) -> None:
    """Its pod keeps to the level restricted, whatever language it is written in."""
    lines = path.read_text(encoding="utf-8").splitlines()
    begin = next(place for place, line in enumerate(lines) if "apiVersion" in line)
    inside = len(lines[begin]) - len(lines[begin].lstrip())
    ends = (place for place, line in enumerate(lines) if place > begin and len(line) - len(line.lstrip()) < inside)
    # An object of each of these languages is one of YAML as well.
    manifest = yaml.safe_load("{" + "\n".join(lines[begin : next(ends)]) + "}")
    assert manifest["kind"] == "Pod"
    limits = replace(SpecLimits(), rights=PodRights(level=PodLevel.RESTRICTED))
    assert read_bag([json.dumps(manifest).encode()], limits).violations == ()


def test_there_is_a_quick_start_in_every_language() -> None:
    """None is left out of the test above."""
    folders = {path.name for path in (ROOT / "examples" / "clients").iterdir() if path.is_dir()}
    assert {path.relative_to(ROOT / "examples" / "clients").parts[0] for path in QUICK_STARTS} == folders


def test_variables_of_the_compose_file_are_those_of_the_settings_file() -> None:
    """Everything that can be set is in .env, and everything in .env is used."""
    used = {name for text in texts(COMPOSE) for name in VARIABLE.findall(text)}
    assert used == set(ENVIRONMENT)


@pytest.mark.parametrize("log_url", ["", "pulsar://127.0.0.1:1"], ids=["log in Postgres", "log on Pulsar"])
def test_topics_of_events_are_made_wherever_the_log_is(log_url: str) -> None:
    """`setup-log` is told of the brokers of events, too, so it goes to them where the log is kept in the database."""
    settings = {**ENVIRONMENT, "EVENT_LOG_URL": log_url, "EVENTS_URL": "pulsar://127.0.0.1:1"}
    service = SERVICES["setup-log"]
    given = {
        name: VARIABLE.sub(lambda match: settings[match[1]], value) for name, value in service["environment"].items()
    }
    assert service["command"] == ["admin", "setup-log", "--events"]
    tried = CliRunner(env=given).invoke(setup_log, ["--events"], obj=Settings(timeout_s=0.0))
    assert isinstance(tried.exception, BackendUnavailable), tried.output
    assert "127.0.0.1" in tried.exception.message


def test_no_password_is_written_down() -> None:
    """The stack makes its own."""
    secret = re.compile(r"password|secret|token", re.IGNORECASE)
    assert [key for key in ENVIRONMENT if secret.search(key)] == []
    literal = [
        (name, key)
        for name, service in SERVICES.items()
        for key, value in service.get("environment", {}).items()
        if secret.search(key) and not key.endswith("_FILE")
    ]
    assert literal == []
    assert all("@" not in text or re.search(r"//\w+@", text) for text in texts(COMPOSE) if "://" in text)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_service_is_bounded_and_open_to_this_machine_only(name: str) -> None:
    """Memory and logs have limits, ports are published where .env says, whatever runs on has a health check."""
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["logging"]["options"]["max-size"]
    assert all(port.startswith("${BIND_ADDRESS}:") for port in service.get("ports", []))
    assert ENVIRONMENT["BIND_ADDRESS"] == "127.0.0.1"
    if name not in ONCE | {"collector"}:  # the collector's image holds nothing that could ask
        assert service["healthcheck"]["test"]
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "build" in service])
def test_own_service_runs_without_rights(name: str) -> None:
    """Our containers write nothing but /tmp and volumes, have no capability and get none."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["build"]["target"] in re.findall(r"^FROM runtime AS ([\w-]+)$", DOCKERFILE, re.MULTILINE)


def test_compose_file_keeps_to_what_old_compose_understands() -> None:
    """1.29 knows neither a name at the top nor includes nor optional dependencies."""
    assert not {"name", "version", "include", "configs"} & set(COMPOSE)
    assert not any("develop" in service for service in SERVICES.values())
    assert "required:" not in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def test_image_file_needs_no_builder_but_the_engine_itself() -> None:
    """No frontend is pulled, nothing is mounted while building, and the last user is not root."""
    assert "# syntax" not in DOCKERFILE
    assert "--mount" not in DOCKERFILE
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert DOCKERFILE.count("--require-hashes") == 2


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every document below deploy/kustomize, but what tells kustomize itself where names are."""
    for path in sorted((ROOT / "deploy" / "kustomize").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if "nameReference" not in document:
                yield f"{path.parent.name}/{path.name}", document


PODS = [
    pytest.param(document["spec"]["template"]["spec"], id=document["metadata"]["name"])
    for _, document in manifests()
    if document["kind"] in {"Deployment", "Job"}
]


def test_overlays_of_the_guide_name_every_image_of_their_base() -> None:
    """The bases' own names are in no registry, so an image that an overlay leaves out could not be pulled."""
    guide = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    found = {}
    for block in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL):
        overlay = yaml.safe_load(block)
        if isinstance(overlay, dict) and overlay.get("kind") == "Kustomization":
            (base,) = (Path(resource).name for resource in overlay["resources"])
            found[base] = {image["name"] for image in overlay["images"]}
    used = {
        base: {
            image
            for path in (ROOT / "deploy" / "kustomize" / base).glob("*.yaml")
            for image in re.findall(r"^\s+image: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        }
        for base in ("server", "cluster")
    }
    assert found == used


def labelled_pods(base: Path) -> dict[str, dict[str, str]]:
    """Labels of a base's pods, with those that its kustomization puts on templates."""
    kustomization = yaml.safe_load((base / "kustomization.yaml").read_text(encoding="utf-8"))
    labels = kustomization.get("labels", ())  # a component has none, nor has what changes another base
    others = [base / name for name in kustomization.get("resources", ()) if (base / name).is_dir()]
    if not labels and others:
        return {name: text for other in others for name, text in labelled_pods(other).items()}
    assert not any(entry.get("includeSelectors") for entry in labels)
    pairs = [entry["pairs"] for entry in labels if entry.get("includeTemplates")]
    added = {name: value for one in pairs for name, value in one.items()}
    left_out = {"kustomization.yaml", "names.yaml"}
    texts = [path.read_text(encoding="utf-8") for path in base.glob("*.yaml") if path.name not in left_out]
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return {name: labels | added for name, labels in pod_labels(documents).items()}


def test_network_policy_of_the_server_lets_in_pods_of_every_base() -> None:
    """Pods carry the label by which the server's policy knows them; without it, an install would wait for ever."""
    folder = ROOT / "deploy" / "kustomize"
    pods = {name: labels for base in folder.iterdir() if base.is_dir() for name, labels in labelled_pods(base).items()}
    policies = [document for _, document in manifests() if document["kind"] == "NetworkPolicy"]
    dialling = set(pods) - {"argosy-migrate", "argosy-relay", "argosy-agent"}  # these dial others
    assert dialling == {f"argosy-{part}" for part in ("api", "leader", "sampler", "executor", "cluster-agent")}
    for target in ("argosy-api", "argosy-leader"):
        assert {name for name in dialling if not is_admitted(policies, pods[name], pods[target], 50051)} == set()
        assert not is_admitted(policies, {"app.kubernetes.io/name": "argosy-sampler"}, pods[target], 50051)


def test_network_policy_of_the_sampler_lets_in_agents_and_nobody_else() -> None:
    """Permits are asked for by the agents of the cluster; the policy comes with them."""
    folder = ROOT / "deploy" / "kustomize"
    pods = {name: labels for base in folder.iterdir() if base.is_dir() for name, labels in labelled_pods(base).items()}
    policies = [document for _, document in manifests() if document["kind"] == "NetworkPolicy"]
    let_in = {name for name, labels in pods.items() if is_admitted(policies, labels, pods["argosy-sampler"], 50051)}
    assert let_in == {"argosy-agent"}


@pytest.mark.parametrize(("base", "account"), [("cluster", "executor"), ("cluster-agent", "cluster-agent")])
def test_named_namespaces_have_the_rights_that_would_hold_for_all(base: str, account: str) -> None:
    """What is taken from the cluster role stands in the role of each namespace; nothing is lost and nothing is new."""

    def grants(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {(name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]}

    def rules_of(folder: str, kind: str, name: str) -> set[tuple[str, str]]:
        texts = (ROOT / "deploy" / "kustomize" / folder / "rights.yaml").read_text(encoding="utf-8")
        documents = yaml.safe_load_all(texts)
        (found,) = (one for one in documents if (one["kind"], one["metadata"]["name"]) == (kind, name))
        return grants(found["rules"])

    component = dict(manifests())["named-namespaces/kustomization.yaml"]
    target = {"kind": "ClusterRole", "name": f"argosy-{account}"}
    ((patch,),) = (yaml.safe_load(one["patch"]) for one in component["patches"] if one["target"] == target)
    left, inside = grants(patch["value"]), rules_of("executor-namespace", "Role", "argosy-executor")
    assert left | inside == rules_of(base, "ClusterRole", f"argosy-{account}")
    cluster_wide = {"namespaces", "nodes", *(("pods", "runtimeclasses") if base == "cluster-agent" else ())}
    assert {name for name, _ in left} == cluster_wide
    assert {verb for _, verb in left} <= {"get", "list", "watch"}
    bindings = yaml.safe_load_all(
        (ROOT / "deploy" / "kustomize" / "executor-namespace" / "rights.yaml").read_text(encoding="utf-8")
    )
    (binding,) = (one for one in bindings if one["kind"] == "RoleBinding")
    assert f"argosy-{account}" in {one["name"] for one in binding["subjects"]}


@pytest.mark.parametrize("name", ["delegated", "named-namespaces"])
def test_variables_that_a_component_adds_are_settings_of_the_service(name: str) -> None:
    """A pod of the base still loads its configuration with them."""
    for entry in dict(manifests())[f"{name}/kustomization.yaml"]["patches"]:
        added = [one["value"] for one in yaml.safe_load(entry["patch"]) if one["path"].endswith("/env/-")]
        for pod in [pod.values[0] for pod in PODS if pod.id == entry["target"]["name"] and added]:
            check_environment(values_of(pod) | values_of({"containers": [{"env": added}]}))


def test_agent_may_change_nothing_but_sizes() -> None:
    """Its only verb that writes is patch, on a subresource that takes sizes alone."""
    (rules,) = [
        document["rules"]
        for _, document in manifests()
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "argosy-agent"
    ]
    writing = [rule for rule in rules if set(rule["verbs"]) - {"get", "list", "watch"}]
    assert [(rule["resources"], rule["verbs"]) for rule in writing] == [(["pods/resize"], ["patch"])]


def values_of(pod: dict[str, Any]) -> dict[str, str]:
    """A pod's variables; what comes from elsewhere is some fitting value."""
    values = {}
    for container in pod["containers"]:
        for entry in container.get("env", []):
            key = entry.get("valueFrom", {}).get("configMapKeyRef", {}).get("key")
            values[entry["name"]] = entry.get("value", "info" if key == "log-level" else "elsewhere")
    return values


@pytest.mark.parametrize("pod", PODS)
def test_pod_loads_the_configuration_that_its_manifest_gives_it(pod: dict[str, Any]) -> None:
    """No variable is misspelt, and none that a service needs is missing."""
    check_environment(values_of(pod))


@pytest.mark.parametrize("pod", [pod for pod in PODS if "restartPolicy" not in pod.values[0]])
def test_pod_whose_event_loop_hangs_is_restarted(pod: dict[str, Any]) -> None:
    """An open port says nothing: the kernel takes connections for a process that does nothing any more.

    Of who is dialled, servers and samplers, health is asked where no caller can be in its way, and without TLS.
    """
    (container,) = pod["containers"]
    values = values_of(pod)
    listen = next((one for name, one in values.items() if name.endswith("_GRPC_HEALTH_LISTEN")), "0.0.0.0:50051")
    port = int(listen.rpartition(":")[2])
    is_secured = any(name.endswith("_GRPC_CERTIFICATE_FILE") for name in values)
    assert (port != 50051) == is_secured != any(name.endswith("_GRPC_INSECURE") for name in values)
    assert port in {one["containerPort"] for one in container["ports"]}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["grpc"] == {"port": port, "service": LIVENESS_SERVICE}
    assert container["readinessProbe"]["grpc"] == {"port": port}
    assert container["livenessProbe"]["failureThreshold"] * container["livenessProbe"]["periodSeconds"] >= 60


@pytest.mark.parametrize("pod", PODS)
def test_pod_runs_without_rights(pod: dict[str, Any]) -> None:
    """Our pods are fit for the restricted level: no root, no capability, nothing written but /tmp."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_sampler_may_only_read() -> None:
    """The sampler's rights are get, list and watch; nobody may do everything, or give itself rights."""
    roles = {
        document["metadata"]["name"]: document["rules"]
        for _, document in manifests()
        if document["kind"] == "ClusterRole"
    }
    assert {verb for rule in roles["argosy-sampler"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    words = {word for rules in roles.values() for rule in rules for values in rule.values() for word in values}
    assert "*" not in words
    assert "pods/binding" not in words, "only the way `subresource` binds, which is not the default"
    assert not words & {"escalate", "bind", "impersonate", "deletecollection", "update"}


def test_images_of_the_stack_can_be_made_where_none_can_be_pulled() -> None:
    """The recipes for tests are for the very tags that the stack names; Grafana is what nothing can make."""
    needed = {value for name, value in ENVIRONMENT.items() if name.endswith("_IMAGE")}
    assert needed - {ENVIRONMENT["GRAFANA_IMAGE"]} == set(IMAGES)


def test_images_start_what_our_distributions_install() -> None:
    """A command that is renamed, or moves to another distribution, is renamed in the image file, too."""
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in ROOT.glob("*/*/pyproject.toml")]
    scripts = {script for project in projects for script in project.get("scripts", {})}
    started = dict(
        re.findall(r"^FROM runtime AS (\S+)(?:.|\n)*?^ENTRYPOINT \[\"([^\"]+)\"\]$", DOCKERFILE, re.MULTILINE)
    )

    assert started == {image: image if image == "argosy" else f"argosy-{image}" for image in started}
    assert set(started.values()) == scripts


def test_folders_of_volumes_are_made_by_the_images_for_our_user() -> None:
    """A named volume belongs to whom the folder belongs that it is first mounted over; without one, to root."""
    mounted = {
        volume.split(":")[1]
        for service in SERVICES.values()
        if "build" in service
        for volume in service.get("volumes", [])
        if volume.split(":")[0] in COMPOSE["volumes"]
    }
    (made,) = re.findall(r"^RUN install -d -o 10001 -g 10001 ((?:[^\\\n]|\\\n)+)$", DOCKERFILE, re.MULTILINE)
    assert mounted - set(made.replace("\\\n", " ").split()) == set()
    assert mounted


def test_images_of_others_are_each_named_by_one_value_that_may_be_a_digest() -> None:
    """Compose takes the value as it is, for what it runs and what it builds on; charts and bases name only ours."""
    ours = {str(service["image"]) for service in SERVICES.values() if "build" in service}
    others = {str(service["image"]) for service in SERVICES.values()} - ours
    assert all(image.startswith("${ARGOSY_REGISTRY}/") for image in ours)
    assert others
    for image in others:
        name = VARIABLE.fullmatch(image)
        assert name is not None, image
        assert name[1] in ENVIRONMENT
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) - set(
        re.findall(r"^FROM .* AS (\S+)", DOCKERFILE, re.MULTILINE)
    )
    assert bases == {"${PYTHON_IMAGE}"}
    named = {
        found
        for path in (*ROOT.glob("deploy/helm/**/*.yaml"), *ROOT.glob("deploy/kustomize/**/*.yaml"))
        for found in re.findall(r"^\s*(?:- )?image: ([a-z]\S*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert all(image.startswith("argosy/") for image in named), named
