"""Write `manifest_schema_data.py` of the core: what fields the Kubernetes objects of a job have, to be strict.

The source is a checkout or Go module of k8s.io/kubernetes: its OpenAPI document, and the values of enumerations from
the Go file that the document is made of, since the document leaves them out. Names and types are taken, no text.

Usage: python tools/manifest_schema.py DIRECTORY VERSION [--check]
       as in: python tools/manifest_schema.py "$(go env GOMODCACHE)/k8s.io/kubernetes@v1.36.3" 1.36.3
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "libs/core/src/argosy_core/job/reading/manifest_schema_data.py"
DOCUMENT = "api/openapi-spec/swagger.json"
ENUMERATIONS = "pkg/generated/openapi/zz_generated.openapi.go"
KINDS = (
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.networking.v1.Ingress",
)
"""Kinds that a job may hold; a test holds them equal to those of `argosy_core.job.reading.kinds`."""
AS_IT_IS = frozenset({"managedFields", "status"})
"""Fields that only a cluster writes; whoever copies an object from one has them, and they mean nothing."""
UNIQUE = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
"""Lists whose elements a cluster refuses if two are equal in this field."""
SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "number": "num", "object": "any"}
HEAD = '''"""What fields the Kubernetes objects of a job have. Written by `tools/manifest_schema.py`; do not edit.

They are those of the OpenAPI document of Kubernetes {version}.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KUBERNETES_VERSION", "SCHEMA"]

KUBERNETES_VERSION: Final = "{version}"
"""Release of Kubernetes whose fields these are."""

SCHEMA: Final = """\\
{body}
"""
"""A type a line, what is indented goes on: its name, then FIELD:TYPE; `!` behind it if it must be given. [T] is a list,
[T/KEY] one whose elements differ in KEY, {{T}} a mapping, =A|B a text of these, a capital another type."""
'''


def short_name(reference: str) -> str:
    """Return the name of a definition without its package."""
    return reference.rpartition(".")[2]


def enumerations(go_source: str) -> dict[tuple[str, str], list[str]]:
    """Return the values of each field that has only some, by (type, field)."""
    found: dict[tuple[str, str], list[str]] = {}
    type_name = field = ""
    for line in go_source.splitlines():
        if match := re.match(r"func schema_k8sio_api_(?:core|networking)_v1_(\w+)\(", line):
            type_name = match[1]
        elif line.startswith("func "):
            type_name = ""
        elif match := re.match(r'\t{5}"(\w+)": \{$', line):
            field = match[1]
        elif type_name and (match := re.match(r"\t{7}Enum: +\[\]interface\{\}\{(.*)\},$", line)):
            found[type_name, field] = re.findall(r'"([^"]+)"', match[1])
    return found


class Compiler:
    """Turns the definitions that the kinds need into lines.

    Args:
        definitions: Those of the OpenAPI document.
        enums: Values by (type, field).
    """

    def __init__(self, definitions: dict[str, Any], enums: dict[tuple[str, str], list[str]]) -> None:
        """Begin with nothing found."""
        self._definitions = definitions
        self._enums = enums
        self._wanted: dict[str, str] = {}

    def lines(self) -> Iterator[str]:
        """Yield a line for each definition, in order of the names."""
        done: dict[str, str] = {}
        for kind in KINDS:
            self._want(kind)
        while len(done) < len(self._wanted):
            for name, reference in list(self._wanted.items()):
                if name not in done:
                    done[name] = self._line(name, self._definitions[reference])
        for name in sorted(done):
            yield from textwrap.wrap(
                done[name], 118, subsequent_indent=" ", break_on_hyphens=False, break_long_words=False
            )

    def _want(self, reference: str) -> str:
        name = short_name(reference)
        if self._wanted.setdefault(name, reference) != reference:
            msg = f"two types are called {name}: {reference} and {self._wanted[name]}"
            raise SystemExit(msg)
        return name

    def _line(self, name: str, definition: dict[str, Any]) -> str:
        needed = set(definition.get("required", ()))
        fields = [
            f"{field}:{self._type(name, field, schema)}{'!' if field in needed else ''}"
            for field, schema in sorted(definition["properties"].items())
        ]
        return " ".join([name, *fields])

    def _type(self, owner: str, field: str, schema: dict[str, Any]) -> str:
        if field in AS_IT_IS:
            return "any"
        if reference := schema.get("$ref"):
            return self._referred(reference.rpartition("/")[2])
        if schema["type"] == "array":
            key = UNIQUE.get(field)
            return f"[{self._type(owner, field, schema['items'])}{f'/{key}' if key else ''}]"
        if "additionalProperties" in schema:
            return f"{{{self._type(owner, field, schema['additionalProperties'])}}}"
        values = self._enums.get((owner, field))
        return "=" + "|".join(values) if values else SCALARS[schema["type"]]

    def _referred(self, reference: str) -> str:
        definition = self._definitions[reference]
        if "properties" in definition:
            return self._want(reference)
        return {"Quantity": "quantity", "IntOrString": "intstr", "Time": "str", "FieldsV1": "any"}[
            short_name(reference)
        ]


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with --check return 1 if it would change."""
    directory, version = Path(arguments[0]), arguments[1]
    definitions = json.loads((directory / DOCUMENT).read_text(encoding="utf-8"))["definitions"]
    enums = enumerations((directory / ENUMERATIONS).read_text(encoding="utf-8"))
    text = HEAD.format(version=version, body="\n".join(Compiler(definitions, enums).lines()))
    if "--check" not in arguments:
        OUTPUT.write_text(text, encoding="utf-8")
    elif OUTPUT.read_text(encoding="utf-8") != text:
        print(f"{OUTPUT.relative_to(ROOT)} is not what {directory} gives")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
