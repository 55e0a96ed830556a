"""Hostile calls, drawn field by field from the descriptors: no method, field or level is written down by hand.

Four levels of one good call are attacked: its bytes (cut, turned, foreign), its protobuf (fields set to what their type
can hold at worst, lists of none, one, all that may be and one more, alike or not), its values (manifests, and columns
of sessions, that are well formed and mean something evil) and, for sessions, the sequence of messages. A call is drawn
from a seed, so that a fault can be made again; those that were found stay in
`tests/integration/server/hostile_corpus.json`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from argosy.api.v1 import access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2
from argosy.debug.v1 import debug_pb2
from argosy.executor.v1 import executor_pb2
from argosy.sampler.v1 import sampler_pb2
from buf.validate import validate_pb2

__all__ = ["METHODS", "HostileCall", "draw_calls", "hostile_change", "hostile_manifest", "list_lengths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileCall:
    """One call, ready to be sent as bytes."""

    method: str
    """Full path, as in /argosy.api.v1.JobService/GetJob."""
    messages: tuple[bytes, ...]
    """What is sent; one message unless the method is a session."""
    level: str
    """What is attacked: bytes, protobuf, values or sequence."""
    is_stream: bool
    """Whether answers come as a stream."""
    is_session: bool
    """Whether requests go as a stream."""


METHODS: Final[dict[str, MethodDescriptor]] = {
    f"/{service.full_name}/{method.name}": method
    for module in (
        access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2, server_pb2, debug_pb2, executor_pb2,
        sampler_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}  # fmt: skip
"""Every method of every service, by full path."""

_TEXTS: Final = (
    "", "\x00", "a\x00b", "\x1b[2J\x1b]0;x\x07", "a\nb", "\u202e", "\ufffe", "\U0001f600", "..", "../x", "-", "red",
    "a" * 64, "a" * 254, "x" * 5000, "'; DROP TABLE jobs; --", "{}", "[]", "null", "NaN", "%s%n", "kube-system",
    "argosy.dev/job", "01a1fed6-54aa-7a51-8051-2a00000fffff", "00000000-0000-0000-0000-000000000005", "AAAA", "A" * 103,
    "a in (b,c),!d", "a=\ud7ff", "\u0660", "\u00df" * 63, "/", "a/b/c", "127.0.0.1:1", "00-" + "0" * 32 + "-x",
)  # fmt: skip
_NO_LIMIT: Final = 1000
_MOST_ELEMENTS: Final = 10_000  # of lists that may be longer, so that requests stay below what is read at all
_DIFFERENT: Final = 40
_LAST_DEPTH: Final = 4
_FLOATS: Final = (0.0, -0.0, -1.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"))
_JSON: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1 << 63, 1 << 64, 10**400, 1.5, 1e308, "", "\x00", "\ud800", "a\nb", "x" * 300, [], [[]],
    [None], {}, {"": ""}, {"\ud800": 1}, {"\x00": {}}, [{}], [1, "a", {}], {"a": {"a": {"a": {}}}}, "\x1b[2J",
)  # fmt: skip
_KEYS: Final = (
    "metadata", "labels", "annotations", "namespace", "name", "generateName", "ownerReferences", "finalizers", "spec",
    "containers", "initContainers", "ephemeralContainers", "resources", "requests", "limits", "claims", "overhead",
    "cpu",
    "hugepages-2Mi", "hugepages-\ud800", "hugepages-\x00", "nvidia.com/gpu", "pods", "ports", "hostPort", "hostIP",
    "protocol", "nodeSelector", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms", "matchExpressions", "matchFields", "operator", "values", "key", "effect", "tolerations",
    "volumes", "projected", "sources", "securityContext", "capabilities", "add", "seLinuxOptions", "type", "sysctls",
    "seccompProfile", "windowsOptions", "procMount", "livenessProbe", "httpGet", "lifecycle", "preStop", "os",
    "restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "priority", "priorityClassName",
    "serviceAccountName", "argosy.dev/references", "argosy.dev/pod-templates", "kind", "apiVersion", "data", "\ud800",
)  # fmt: skip
_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"a": "b"},
        "os": {"name": "linux"},
        "securityContext": {"seLinuxOptions": {"type": ""}, "sysctls": [], "seccompProfile": {"type": "Localhost"}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
        "initContainers": [],
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "ports": [{"containerPort": 1, "protocol": "TCP"}],
                "securityContext": {"capabilities": {"add": ["CHOWN"]}, "procMount": "Default"},
                "livenessProbe": {"httpGet": {"port": 1}},
                "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}
_OTHERS: Final[tuple[dict[str, Any], ...]] = (
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "stringData": {"a": "b"}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "ports": []}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
    {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {"rules": []}},
    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"accessModes": []}},
)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - any JSON
    """Yield (parent, key) of every value below a JSON value."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def hostile_manifest(random: Random) -> bytes:
    """Return a manifest that is nearly good: up to three of its values are another, or one is added."""
    document = deepcopy(_POD if random.random() < 0.7 else random.choice(_OTHERS))
    for _ in range(random.randrange(4)):
        parent, key = random.choice(list(_places(document)))
        value = deepcopy(random.choice(_JSON))
        if random.random() < 0.4 and isinstance(parent, dict):
            key = random.choice(_KEYS)
        elif random.random() < 0.1 and isinstance(parent, list):
            parent.extend([deepcopy(parent[key]) for _ in range(random.choice((1, 70, 300)))])
            continue
        parent[key] = value
    return json.dumps(document).encode()


def _draw_column(name: str, random: Random) -> bytes:
    """Return a packed column: of a likely width, with values at the ends of their range, or of no width at all."""
    width, code = random.choice(((1, "b"), (2, "h"), (4, "i"), (8, "q"), (4, "f")))
    count = random.choice((0, 1, 1, 2, 2, 3, 17, 1000))
    least, most = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1
    if code == "f":
        return b"".join(struct.pack("<f", random.choice((0.0, -1.0, float("nan"), float("inf")))) for _ in range(count))
    if "uid" in name:
        return random.randbytes(16 * count)
    values = random.choices((0, 0, 1, 1, 2, -1, least, most, most - 1), k=count)
    return struct.pack(f"<{count}{code}", *values) + random.choice((b"",) * 9 + (b"\xff",))


def _draw_value(field: FieldDescriptor, random: Random) -> Any:  # noqa: ANN401 - whatever the field holds
    """Return a value of a scalar field's type that somebody may have forgotten."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            if "manifest" in field.name:
                return hostile_manifest(random)
            return random.choice(
                (_draw_column(field.name, random), b"", b"\x00", random.randbytes(random.choice((1, 16, 700))), b"[]")
            )
        return hostile_manifest(random).decode() if "manifest" in field.name else random.choice(_TEXTS)
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return random.choice(_FLOATS)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    bits = 64 if kind in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64) else 32
    if kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return random.choice((0, 1, 1000, (1 << bits) - 1))
    return (
        random.choice((0, 1, 2, -1, 32, 1000, 1001, 65_537, 1 << 31, -(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        % (1 << (bits - 1))
        * random.choice((1, 1, -1))
    )


def _fill_map(entries: Any, entry: Descriptor, random: Random) -> None:  # noqa: ANN401 - the map's type is private
    """Put hostile keys and values into a map of scalars."""
    key_field, value_field = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for number in range(random.choice((1, 1, 2, 65)) if value_field.message_type is None else 0):
        key = _draw_value(key_field, random)
        entries[f"{key}{number}" if number and isinstance(key, str) else key] = _draw_value(value_field, random)


def list_lengths(field: FieldDescriptor) -> tuple[int, int, int, int]:
    """Return how many elements lists are given: none, one, as many as the protocol lets there be, and one more."""
    rules: Any = field.GetOptions().Extensions[validate_pb2.field]  # type: ignore[index]
    limit = int(rules.repeated.max_items) or _NO_LIMIT
    return 0, 1, min(limit, _MOST_ELEMENTS), min(limit, _MOST_ELEMENTS) + 1


def _fill_list(elements: Any, field: FieldDescriptor, random: Random) -> Message | None:  # noqa: ANN401 - as above
    """Change an element, or give the list another length; return a message of it that is yet to be changed."""
    if elements and random.random() < 0.5:
        if field.message_type is None:
            elements[random.randrange(len(elements))] = _draw_value(field, random)
            return None
        chosen: Message = random.choice(list(elements))
        return chosen
    length = random.choice(list_lengths(field))
    if field.message_type is None:
        drawn = [_draw_value(field, random) for _ in range(random.choice((1, _DIFFERENT)))]
    else:
        first: Any = elements[0] if elements else elements.add()
        drawn = [deepcopy(first) for _ in range(random.choice((1, 3)))]
        for one in drawn[1:]:
            hostile_change(one, random, _LAST_DEPTH)
    del elements[:]
    elements.extend(drawn[number % len(drawn)] for number in range(length))  # all alike, or each some times
    return elements[random.randrange(length)] if length and field.message_type is not None else None


def hostile_change(message: Message, random: Random, depth: int = 0) -> None:
    """Set one field, anywhere below a message, to a hostile value."""
    if not message.DESCRIPTOR.fields:
        return
    field: Any = random.choice(list(message.DESCRIPTOR.fields))
    inner: Message | None = None
    if random.random() < 0.1:
        message.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(getattr(message, field.name), field.message_type, random)
    elif field.is_repeated:
        inner = _fill_list(getattr(message, field.name), field, random)
    elif field.message_type is not None:
        one: Message = getattr(message, field.name)
        one.SetInParent()
        inner = one
    else:
        setattr(message, field.name, _draw_value(field, random))
    if inner is not None and depth < _LAST_DEPTH:
        hostile_change(inner, random, depth + 1)


def _spoil(data: bytes, random: Random) -> bytes:
    """Return bytes that were a message: cut, turned, repeated, or of something else."""
    way = random.randrange(5)
    if way == 0 and data:
        return data[: random.randrange(len(data))]
    if way == 1 and data:
        place = random.randrange(len(data))
        return data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
    if way == 2:
        return data + random.randbytes(random.choice((1, 8, 64)))
    if way == 3:
        return data * random.choice((2, 3, 50))
    return random.choice((b"\xff" * 12, b"\x0a" * 900, b"\x0b" * 900, b"\x0a\xff\xff\xff\xff\x0f"))


def _draw_session(messages: Sequence[Message], random: Random) -> tuple[tuple[bytes, ...], str]:
    """Return one session's messages as bytes, and the level that is attacked."""
    level = random.choice(("bytes", "protobuf", "protobuf", "values", "values", "sequence"))
    copies = [type(message).FromString(message.SerializeToString()) for message in messages]
    if level == "sequence":
        kinds: list[Any] = list(type(messages[0]).DESCRIPTOR.oneofs_by_name["message"].fields)
        for _ in range(random.randrange(3)):
            extra = type(messages[0])()
            getattr(extra, random.choice(kinds).name).SetInParent()
            copies.insert(random.randrange(len(copies) + 1), extra)
        if random.random() < 0.5:
            random.shuffle(copies)
        return tuple(one.SerializeToString() for one in copies), level
    # The hello decides whether anything else is read at all, so it is mostly left alone.
    place = 0 if random.random() < 0.2 else random.randrange(len(copies))
    if level == "bytes":
        data = [one.SerializeToString() for one in copies]
        data[place] = _spoil(data[place], random)
        return tuple(data), level
    chosen: Any = copies[place]
    for _ in range(1 if level == "protobuf" else 3):
        kind = chosen.WhichOneof("message")
        hostile_change(getattr(chosen, kind) if kind else chosen, random)
    return tuple(one.SerializeToString() for one in copies), level


def draw_calls(
    seed: int, good: Mapping[str, Sequence[Message]], methods: Sequence[str] = tuple(METHODS)
) -> Iterator[HostileCall]:
    """Yield hostile calls for ever, the methods in turn; the same ones for the same seed.

    Args:
        seed: Any number.
        good: A good call's messages by method, where an empty one is refused at once.
        methods: Full paths of the methods to call.
    """
    random = Random(seed)
    while True:
        for path in methods:
            method = METHODS[path]
            kind = GetMessageClass(method.input_type)
            messages = good.get(path) or (kind(),)
            if method.client_streaming:
                data, level = _draw_session(messages, random)
            else:
                message = kind.FromString(messages[0].SerializeToString())
                level = random.choice(("bytes", "protobuf", "protobuf", "values"))
                if level == "values" and method.name == "SubmitJobs":
                    submit: Any = message
                    submit.specs[0].manifests[:] = [
                        hostile_manifest(random).decode() for _ in range(random.choice((1, 1, 2)))
                    ]
                elif level != "bytes":
                    for _ in range(1 if level == "protobuf" else 3):
                        hostile_change(message, random)
                one = message.SerializeToString()
                data = (_spoil(one, random) if level == "bytes" else one,)
            yield HostileCall(
                method=path,
                messages=data,
                level=level,
                is_stream=method.server_streaming,
                is_session=method.client_streaming,
            )
