"""Configuration: one frozen dataclass tree per service, loaded once, every field documented.

A configuration type is a dataclass with a class variable `SERVICE` (as in `"server"`), a default for every field that
need not be set, and a string below each field that gives its unit and the reason of its default; that string is the
help text. A nested dataclass is a section. The field `limits.max_items` of the server is set by, first found first:

1. the flag `--limits-max-items 5`;
2. the environment variable `ARGOSY_SERVER_LIMITS_MAX_ITEMS=5`;
3. the file named by `--config` or `ARGOSY_SERVER_CONFIG` (YAML, JSON or TOML by its ending), key
   `limits: {max_items: 5}`;
4. the default.

A key that nothing reads is an error that names it and its nearest neighbour: a misspelt limit must not be a missing
one.

Source: design section 9, "Settings".
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.findings import is_label_value
from argosy_runtime.documentation import field_texts, type_text
from argosy_runtime.setting_values import convert, plain

__all__ = [
    "SettingText",
    "change_config",
    "describe_config",
    "help_text",
    "load_config",
    "print_config",
    "require_names",
    "require_pools",
    "setting_texts",
    "value_texts",
]

Config = TypeVar("Config")

_MISSING: Final = object()
_PASSWORD: Final = re.compile(r"(://[^:/@\s]*:)[^@\s]*(@)")
# libpq takes a password also as a parameter of a URL, or as one word of `host=... password=...`, quoted or not.
_PASSWORD_PARAMETER: Final = re.compile(r"(?i)\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|[^\s&]+)")
# Kubernetes sets these for every Service of a namespace, and a Service may well be called `argosy-server`.
_SERVICE_LINK: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingText:
    """What people are told of a setting."""

    key: str
    """Key in a file, sections and dots included."""
    flag: str
    """Flag of the command line."""
    variable: str
    """Environment variable."""
    kind: str
    """Placeholder of its value."""
    default: str | None
    """Default as text, None if it must be set."""
    text: str
    """Meaning, unit and the reason of the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    path: tuple[str, ...]
    kind: Any
    default: object
    secret: bool
    may_be_zero: bool
    empty_word: str
    text: str

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    def variable(self, prefix: str) -> str:
        return prefix + "_".join(self.path).upper()


def load_config(
    config_type: type[Config], argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None
) -> Config:
    """Return the configuration of a service from flags, environment, file and defaults, in this order of precedence.

    Args:
        config_type: The service's configuration dataclass.
        argv: Flags without the program's name; `sys.argv[1:]` if not given.
        environ: Environment; the process's if not given.

    Raises:
        InvalidRequest: A key is unknown, a value does not fit its field, a needed one is missing, or the file cannot be
            read; every fault is listed.
        SystemExit: `--help` was asked for, after printing it.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    environment = os.environ if environ is None else environ
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(help_text(config_type))
        raise SystemExit(0)
    leaves = _leaves(config_type)
    faults: list[FieldViolation] = []
    flags = _read_flags(arguments, leaves, faults)
    prefix = _prefix(config_type)
    variables = _read_environment(environment, leaves, prefix, faults)
    path = flags.pop("config", None) or environment.get(f"{prefix}CONFIG")
    document = _read_file(path, leaves, faults) if path else {}
    values: dict[str, object] = {}
    for leaf in leaves:
        for source, label in (
            (flags, leaf.flag),
            (variables, leaf.variable(prefix)),
            (document, f"{path}: {leaf.key}"),
        ):
            if leaf.key in source:
                try:
                    values[leaf.key] = _check_range(convert(_unworded(source[leaf.key], leaf), leaf.kind), leaf)
                except (ValueError, TypeError) as cause:
                    shown = "***" if leaf.secret else repr(source[leaf.key])
                    faults.append(FieldViolation(field=label, description=f"{shown} is not {cause}"))
                break
        else:
            if leaf.default is _MISSING:
                faults.append(
                    FieldViolation(
                        field=leaf.key,
                        description=f"is needed; set {leaf.flag} or {leaf.variable(prefix)}. {leaf.text}",
                    )
                )
    if faults:
        text = "; ".join(f"{fault.field}: {fault.description}" for fault in faults)
        raise InvalidRequest(f"configuration is wrong: {text}", violations=tuple(faults))
    return _build(config_type, values, ())


def change_config(config: Config, values: Mapping[str, object]) -> Config:
    """Return a configuration with other values of some settings.

    Args:
        config: The configuration.
        values: By key, as text or as a file has them.

    Raises:
        InvalidRequest: A key is unknown, a value does not fit its field, or values do not go together; every fault of a
            single one is listed.
    """
    leaves = {leaf.key: leaf for leaf in _leaves(type(config))}
    faults: list[FieldViolation] = []
    changed: dict[str, object] = {}
    for key, value in values.items():
        leaf = leaves.get(key)
        if leaf is None:
            faults.append(_unknown(key, list(leaves)))
            continue
        try:
            changed[key] = _check_range(convert(_unworded(value, leaf), leaf.kind), leaf)
        except (ValueError, TypeError) as cause:
            faults.append(FieldViolation(field=key, description=f"{value!r} is not {cause}"))
    if faults:
        text = "; ".join(f"{fault.field}: {fault.description}" for fault in faults)
        raise InvalidRequest(f"settings are wrong: {text}", violations=tuple(faults))
    return _replace(config, changed, "")


def _replace(config: Config, changed: Mapping[str, object], above: str) -> Config:
    """Return a section with changed values; sections in which none is changed stay as they are."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        key, value = f"{above}{field.name}", getattr(config, field.name)
        if key in changed:
            values[field.name] = changed[key]
        elif dataclasses.is_dataclass(value) and any(name.startswith(f"{key}.") for name in changed):
            values[field.name] = _replace(value, changed, f"{key}.")
    return dataclasses.replace(config, **values) if values else config  # type: ignore[type-var]


def value_texts(config: object) -> dict[str, str]:
    """Return the values of all settings as text, by key, as `change_config` takes them; secrets are hidden."""
    found: dict[str, str] = {}
    for leaf in _leaves(type(config)):
        value: Any = config
        for name in leaf.path:
            value = getattr(value, name)
        text = _default_text(dataclasses.replace(leaf, default=value))
        found[leaf.key] = text.lower() if isinstance(value, bool) else text
    return found


def require_names(named: Mapping[str, str]) -> None:
    """Refuse names that cannot become labels of objects, parts of topics and rows alike.

    Args:
        named: Names by the key of their setting.

    Raises:
        InvalidRequest: A name is none; the message names its setting.
    """
    for key, name in named.items():
        if not name or not is_label_value(name):
            raise InvalidRequest(
                f"{key} is {name!r}, but must be 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both"
                " ends"
            )


def require_pools(pools: Sequence[str]) -> None:
    """Refuse a list of pools that is empty, or names one twice or wrongly.

    Raises:
        InvalidRequest: It is such a list.
    """
    if not pools or len(set(pools)) < len(pools):
        raise InvalidRequest(f"pools is {', '.join(pools)!r}, but must name at least one pool, and each once")
    for pool in pools:
        require_names({"pools": pool})


def describe_config(config: object) -> dict[str, object]:
    """Return a configuration as a nested mapping fit for logs: secrets and passwords inside URLs are hidden."""
    described: dict[str, object] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            described[field.name] = describe_config(value)
        elif field.metadata.get("secret") and value:
            described[field.name] = "***"
        else:
            described[field.name] = _hide_passwords(value) if isinstance(value, str) else plain(value)
    return described


def _hide_passwords(text: str) -> str:
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1***\2", text))


def print_config(config: object) -> None:
    """Log the configuration as loaded, without secrets; to be called once at the start."""
    from argosy_runtime.logs import get_logger

    get_logger().info("configuration", config=describe_config(config))


def help_text(config_type: type[Any]) -> str:
    """Return what `--help` prints: every flag with its variable, default, unit and reason."""
    service = config_type.SERVICE
    prefix = _prefix(config_type)
    lines = [f"usage: argosy-{service} [--FLAG VALUE ...]", ""]
    lines += [(config_type.__doc__ or "").strip().splitlines()[0], ""]
    lines += ["  --config FILE", f"      YAML, JSON or TOML file with the same keys. Environment: {prefix}CONFIG.", ""]
    for setting in setting_texts(config_type):
        default = "needed" if setting.default is None else f"default: {setting.default}"
        lines.append(f"  {setting.flag} {setting.kind}")
        lines.append(f"      {setting.text} ({default}; environment: {setting.variable})")
    return "\n".join(lines) + "\n"


def setting_texts(config_type: type[Any]) -> list[SettingText]:
    """Return every setting of a service, in the order of its fields."""
    return [
        SettingText(
            key=leaf.key,
            flag=leaf.flag,
            variable=leaf.variable(_prefix(config_type)),
            kind=type_text(leaf.kind),
            default=None if leaf.default is _MISSING else _default_text(leaf),
            text=leaf.text,
        )
        for leaf in _leaves(config_type)
    ]


def _default_text(leaf: _Leaf) -> str:
    if leaf.secret and leaf.default:
        return "***"
    if isinstance(leaf.default, tuple):
        return ",".join(str(item) for item in leaf.default) or "none"
    if isinstance(leaf.default, Mapping):
        return ",".join(f"{name}={value}" for name, value in leaf.default.items()) or leaf.empty_word
    return "none" if leaf.default is None or leaf.default == "" else str(leaf.default)


def _prefix(config_type: type[Any]) -> str:
    return f"ARGOSY_{config_type.SERVICE.upper().replace('-', '_')}_"


def _section_default(field: dataclasses.Field[Any]) -> object:
    """Return what a section is unless something is set in it; None if its type says it all."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _leaves(config_type: type[Any]) -> tuple[_Leaf, ...]:
    """Return every setting of a service, found once: to read sources and types takes 0.1 s of a server's event loop."""
    found = _found_leaves.get(config_type)
    if found is None:
        found = _found_leaves[config_type] = tuple(_walk(config_type))
    return found


_found_leaves: Final[dict[type[Any], tuple[_Leaf, ...]]] = {}


def _walk(config_type: type[Any], path: tuple[str, ...] = (), given: object = None) -> Iterator[_Leaf]:
    hints = typing.get_type_hints(config_type)
    texts = field_texts(config_type)
    for field in dataclasses.fields(config_type):
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            section = getattr(given, field.name) if given is not None else _section_default(field)
            yield from _walk(typing.cast("type[Any]", kind), (*path, field.name), section)
            continue
        default: object = _MISSING
        if given is not None:
            default = getattr(given, field.name)
        elif field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield _Leaf(
            path=(*path, field.name),
            kind=kind,
            default=default,
            secret=bool(field.metadata.get("secret")),
            may_be_zero=bool(field.metadata.get("may_be_zero")),
            empty_word=field.metadata.get("empty_word", "none"),
            text=texts.get(field.name, ""),
        )


def _read_flags(arguments: list[str], leaves: Sequence[_Leaf], faults: list[FieldViolation]) -> dict[str, str]:
    by_flag = {leaf.flag: leaf for leaf in leaves}
    negations = {leaf.flag.replace("--", "--no-", 1): leaf for leaf in leaves if leaf.kind is bool}
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in negations and not equals:
            found[negations[name].key] = "false"
            continue
        leaf = by_flag.get(name)
        if leaf is None and name != "--config":
            faults.append(_unknown(name, [*by_flag, *negations, "--config", "--help"]))
            if not equals and name.startswith("--"):
                next(rest, None)
            continue
        key = leaf.key if leaf else "config"
        if equals:
            found[key] = value
        elif leaf is not None and leaf.kind is bool:
            found[key] = "true"
        else:
            following = next(rest, None)
            if following is None:
                faults.append(FieldViolation(field=name, description="needs a value"))
            else:
                found[key] = following
    return found


def _read_environment(
    environment: Mapping[str, str], leaves: Sequence[_Leaf], prefix: str, faults: list[FieldViolation]
) -> dict[str, str]:
    by_variable = {leaf.variable(prefix): leaf.key for leaf in leaves}
    found: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith(prefix) or name == f"{prefix}CONFIG":
            continue
        if name in by_variable:
            found[by_variable[name]] = value
        elif not _SERVICE_LINK.search(f"_{name[len(prefix) :]}"):
            faults.append(_unknown(name, list(by_variable)))
    return found


def _parse_file(path: str) -> object:
    try:
        text = Path(path).read_text(encoding="utf-8")
        if path.endswith(".toml"):
            return tomllib.loads(text)
        return json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as cause:
        raise InvalidRequest(f"configuration file {path!r} cannot be read: {cause}") from cause
    except RecursionError as cause:
        raise InvalidRequest(f"configuration file {path!r} cannot be read: it is nested too deeply") from cause


def _read_file(path: str, leaves: Sequence[_Leaf], faults: list[FieldViolation]) -> dict[str, object]:
    document = _parse_file(path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidRequest(f"configuration file {path!r} holds no mapping of keys to values")
    by_key = {leaf.key for leaf in leaves}
    sections = {".".join(leaf.path[:length]) for leaf in leaves for length in range(1, len(leaf.path))}
    found: dict[str, object] = {}

    def walk(mapping: Mapping[str, object], above: str) -> None:
        for name, value in mapping.items():
            key = f"{above}{name}"
            if key in by_key:
                found[key] = value
            elif key in sections and isinstance(value, dict):
                walk(value, f"{key}.")
            else:
                faults.append(_unknown(key, [*by_key, *sections], where=path))

    walk(document, "")
    return found


def _unknown(name: str, known: Sequence[str], *, where: str = "") -> FieldViolation:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    hint = f"; did you mean {near[0]}?" if near else ""
    return FieldViolation(field=f"{where}: {name}" if where else name, description=f"is no key of this service{hint}")


def _unworded(value: object, leaf: _Leaf) -> object:
    """Return a value, with the word for an empty mapping (the metadata `empty_word` of its field) as an empty one."""
    is_word = typing.get_origin(leaf.kind) is Mapping and value == leaf.empty_word
    return {} if is_word else value


def _check_range(value: object, leaf: _Leaf) -> object:
    """Return a value unless it is a number that nothing can be counted or waited by.

    No setting means anything below zero, and one whose default is above zero may be zero only if its field says so by
    the metadata `may_be_zero`.

    Raises:
        ValueError: It is such a number; the message says what it should be.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        above_zero = bool(leaf.default) and leaf.default is not _MISSING and not leaf.may_be_zero
        if value < 0 or (value == 0 and above_zero):
            raise ValueError("a number above 0" if above_zero else "a number from 0 on")
    return value


def _build(
    config_type: type[Config], values: Mapping[str, object], path: tuple[str, ...], given: Config | None = None
) -> Config:
    hints = typing.get_type_hints(config_type)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(config_type):  # type: ignore[arg-type]
        here = (*path, field.name)
        if dataclasses.is_dataclass(hints[field.name]):
            section = getattr(given, field.name) if given is not None else _section_default(field)
            arguments[field.name] = _build(hints[field.name], values, here, section)
        elif ".".join(here) in values:
            arguments[field.name] = values[".".join(here)]
    return config_type(**arguments) if given is None else dataclasses.replace(given, **arguments)  # type: ignore[type-var]
