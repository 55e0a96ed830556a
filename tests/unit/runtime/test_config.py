"""Tests of configuration loading."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from argosy_core.errors import InvalidRequest
from argosy_runtime.config import (
    change_config,
    describe_config,
    help_text,
    load_config,
    setting_texts,
    value_texts,
)
from argosy_runtime.documentation import field_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A section."""

    max_items: int = 5
    """Items of a request; 5 is plenty."""
    ratio: float = 0.5
    """A ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Configuration of a test service."""

    SERVICE: ClassVar[str] = "probe"

    database_url: str
    """Where the data is."""
    role: Literal["api", "leader"] = "api"
    """What it does."""
    verbose: bool = False
    """Whether it talks."""
    names: tuple[str, ...] = ()
    """Names."""
    folder: Path | None = None
    """Where files go."""
    token: str = field(default="", metadata={"secret": True})
    """A secret."""
    limits: Limits = field(default_factory=Limits)
    """Limits."""


def load(*argv: str, **environ: str) -> Settings:
    """Load with these flags and variables, the needed one given."""
    variables = {f"ARGOSY_PROBE_{name}": value for name, value in environ.items()}
    return load_config(Settings, ["--database-url", "x", *argv], variables)


def test_config_takes_flag_before_environment_before_file_before_default(tmp_path: Path) -> None:
    """Each source hides those after it."""
    file = tmp_path / "probe.yaml"
    file.write_text("limits: {max_items: 7, ratio: 0.25}\nrole: leader\nverbose: true\n")
    config = load("--config", str(file), "--limits-max-items", "9", LIMITS_MAX_ITEMS="8", VERBOSE="no")
    assert (config.limits.max_items, config.verbose) == (9, False)
    assert (config.limits.ratio, config.role) == (0.25, "leader")
    assert config.names == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "limits:\n  max_items: 3\nnames: [a, b]\n"),
        ("a.json", '{"limits": {"max_items": 3}, "names": ["a", "b"]}'),
        ("a.toml", 'names = ["a", "b"]\n[limits]\nmax_items = 3\n'),
    ],
)
def test_config_reads_file_by_its_ending(tmp_path: Path, name: str, text: str) -> None:
    """YAML, JSON and TOML say the same."""
    file = tmp_path / name
    file.write_text(text)
    config = load(CONFIG=str(file))
    assert (config.limits.max_items, config.names) == (3, ("a", "b"))


@pytest.mark.parametrize(
    ("argv", "read"),
    [
        (["--verbose"], lambda c: c.verbose is True),
        (["--verbose=false"], lambda c: c.verbose is False),
        (["--verbose", "--no-verbose"], lambda c: c.verbose is False),
        (["--names", "a, b"], lambda c: c.names == ("a", "b")),
        (["--folder", "/tmp"], lambda c: c.folder == Path("/tmp")),
        (["--folder", "none"], lambda c: c.folder is None),
        (["--limits-max-items=1_000"], lambda c: c.limits.max_items == 1000),
        (["--limits-ratio", "1e-3"], lambda c: c.limits.ratio == 0.001),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_config_converts_values_to_field_types(argv: list[str], read: Any) -> None:
    """Texts become what the field says."""
    assert read(load(*argv))


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        (["--limits-max-itens", "3"], {}, ["--limits-max-itens", "--limits-max-items"]),
        ([], {"LIMIT_MAX_ITEMS": "3"}, ["ARGOSY_PROBE_LIMIT_MAX_ITEMS", "ARGOSY_PROBE_LIMITS_MAX_ITEMS"]),
        (["--limits-max-items", "many"], {}, ["--limits-max-items", "'many' is not a whole number"]),
        (["--limits-max-items", "1.5"], {}, ["a whole number"]),
        (["--limits-ratio", "nan"], {}, ["a finite number"]),
        (["--role", "king"], {}, ["'king' is not one of api, leader"]),
        ([], {"VERBOSE": "perhaps"}, ["ARGOSY_PROBE_VERBOSE", "true or false"]),
        (["--role"], {}, ["--role: needs a value"]),
        (["stray"], {}, ["stray"]),
    ],
)
def test_config_names_key_and_what_is_wrong(argv: list[str], environ: dict[str, str], expected: list[str]) -> None:
    """A wrong key or value is an error with the key, the value, and the nearest known key."""
    with pytest.raises(InvalidRequest) as caught:
        load(*argv, **environ)
    for text in expected:
        assert text in caught.value.message


def test_config_lists_every_fault_at_once(tmp_path: Path) -> None:
    """Faults of all sources are listed together, the needed field that is missing among them."""
    file = tmp_path / "probe.yaml"
    file.write_text("limit: {max_items: 7}\n")
    with pytest.raises(InvalidRequest) as caught:
        load_config(Settings, ["--config", str(file), "--rolle", "api", "--limits-ratio", "x"], {})
    assert len(caught.value.violations) == 4
    assert "limit: is no key of this service; did you mean limits?" in caught.value.message
    assert "database_url: is needed; set --database-url or ARGOSY_PROBE_DATABASE_URL" in caught.value.message


@pytest.mark.parametrize("text", ["[", "- a\n- b\n", "a: b: c", "- " * 5000], ids=["open", "list", "colons", "deep"])
def test_config_refuses_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    """A file that cannot be read is an error that names it."""
    file = tmp_path / "probe.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=r"probe\.yaml"):
        load("--config", str(file))


def test_config_ignores_variables_that_kubernetes_sets_for_services() -> None:
    """A Service called argosy-probe must not keep its own pods from starting."""
    config = load(SERVICE_HOST="10.0.0.1", PORT="tcp://10.0.0.1:50051", PORT_50051_TCP_ADDR="10.0.0.1")
    assert config.database_url == "x"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db/argosy", "postgresql://me:***@db/argosy"),
        (
            "postgresql://me@db/argosy?password=hunter2&sslmode=require",
            "postgresql://me@db/argosy?password=***&sslmode=require",
        ),
        ("postgresql://me@db/argosy?sslpassword=hunter2", "postgresql://me@db/argosy?sslpassword=***"),
        ("host=db password=hunter2 user=me", "host=db password=*** user=me"),
        (r"host=db password = 'hunter2 \' hunter2' user=me", "host=db password = *** user=me"),
        ("host=db PASSWORD='hunter2 hunter2", "host=db PASSWORD=***"),
    ],
    ids=["user part", "parameter", "of the key", "words", "quoted", "quote not closed"],
)
def test_config_shows_itself_without_secrets(url: str, shown: str) -> None:
    """Secrets and passwords do not reach the log, in whatever form libpq takes them."""
    described = describe_config(load_config(Settings, ["--database-url", url, "--token", "t0k"], {}))
    assert described["database_url"] == shown
    assert described["token"] == "***"
    assert described["limits"] == {"max_items": 5, "ratio": 0.5}


def test_help_tells_unit_reason_default_and_variable_of_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    """--help is made of the texts below the fields."""
    with pytest.raises(SystemExit) as caught:
        load_config(Settings, ["--help"], {})
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text == help_text(Settings)
    assert "Items of a request; 5 is plenty. (default: 5; environment: ARGOSY_PROBE_LIMITS_MAX_ITEMS)" in text
    assert "Where the data is. (needed; environment: ARGOSY_PROBE_DATABASE_URL)" in text


def test_field_texts_come_from_strings_below_fields() -> None:
    """A field's string is its text."""
    assert field_texts(Limits) == {"max_items": "Items of a request; 5 is plenty.", "ratio": "A ratio."}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """A section."""

    listen: str = "127.0.0.1:50051"
    """Address."""
    backlog_count: int = 5
    """Length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """A service that wants another default in a section than the section's type has."""

    SERVICE: ClassVar[str] = "sectioned"

    port: _Port = field(default_factory=lambda: _Port(listen="127.0.0.1:0"))
    """Section."""


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], _Port(listen="127.0.0.1:0")),
        (["--port-backlog-count", "7"], _Port(listen="127.0.0.1:0", backlog_count=7)),
        (["--port-listen", "127.0.0.1:9"], _Port(listen="127.0.0.1:9")),
    ],
    ids=["nothing set", "another field set", "the field set"],
)
def test_a_section_keeps_the_default_that_its_service_gives_it(argv: list[str], expected: _Port) -> None:
    """What a service says of a section holds unless something is set; the section's own type comes last."""
    assert load_config(_Service, argv, {}).port == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Numbers and mappings."""

    SERVICE: ClassVar[str] = "probe"

    lease_s: float = 10.0
    """Above zero."""
    drain_s: float = field(default=10.0, metadata={"may_be_zero": True})
    """May be zero."""
    seed: int = 0
    """Zero as it comes."""
    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 0.001})
    """By name."""


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        ("--lease-s=-5", "--lease-s: '-5' is not a number above 0"),
        ("--lease-s=0", "--lease-s: '0' is not a number above 0"),
        ("--drain-s=-1", "--drain-s: '-1' is not a number from 0 on"),
        ("--seed=-4", "--seed: '-4' is not a number from 0 on"),
        ("--weights=cpu", "--weights: 'cpu' is not of the form name=value,name=value"),
        ("--weights=cpu=x", "--weights: 'cpu=x' is not a number"),
    ],
)
def test_config_refuses_numbers_that_mean_nothing(flag: str, shown: str) -> None:
    """A wait, count or rate below zero is a mistake, and so is zero where nothing could go on."""
    with pytest.raises(InvalidRequest) as caught:
        load_config(Paces, [flag], {})
    assert shown in caught.value.message


def test_config_takes_zero_where_its_field_allows_it() -> None:
    """Waiting no time at all is a choice where the field says so."""
    config = load_config(Paces, ["--drain-s=0", "--seed=0"], {})
    assert (config.drain_s, config.seed, config.weights) == (0.0, 0, {"cpu": 0.001})


def test_config_reads_mappings_from_flags_and_files(tmp_path: Path) -> None:
    """A mapping is `name=value,name=value` in a flag or variable, and a mapping in a file."""
    assert load_config(Paces, ["--weights", "cpu=0.001, nvidia.com/gpu=8"], {}).weights == {
        "cpu": 0.001,
        "nvidia.com/gpu": 8.0,
    }
    file = tmp_path / "probe.yaml"
    file.write_text("weights: {memory: 1.0e-9}\n")
    assert load_config(Paces, ["--config", str(file)], {}).weights == {"memory": 1e-9}
    assert "default: cpu=0.001" in help_text(Paces)


def test_changed_config_has_other_values_and_leaves_the_first_as_it_is() -> None:
    """Values are text or as a file has them; what the texts of all values say gives the same configuration."""
    config = load_config(Paces, ["--drain-s=3"], {})
    changed = change_config(config, {"seed": "7", "weights": {"memory": 2}})
    assert (changed.seed, changed.weights, changed.drain_s) == (7, {"memory": 2.0}, 3.0)
    assert (config.seed, config.weights) != (changed.seed, changed.weights)
    assert change_config(load_config(Paces, [], {}), value_texts(changed)) == changed
    with pytest.raises(InvalidRequest) as caught:
        change_config(config, {"sed": "7", "weights": "cpu"})
    assert "did you mean seed?" in caught.value.message
    assert "weights: 'cpu' is not of the form name=value" in caught.value.message


def test_sources_of_settings_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is asked for its settings by anybody who may, and parses its own sources once for all of them."""

    @dataclass(frozen=True)
    class Asked:
        SERVICE: ClassVar[str] = "asked"
        size: int = 1

    reads: list[object] = []
    real = inspect.getsource

    def counted(of: Any) -> str:
        reads.append(of)
        return real(of)

    monkeypatch.setattr(inspect, "getsource", counted)
    for size in (2, 3, 4):
        assert change_config(Asked(), {"size": str(size)}).size == size
        assert [one.key for one in setting_texts(Asked)] == [*value_texts(Asked())] == ["size"]
    assert reads == [Asked]
