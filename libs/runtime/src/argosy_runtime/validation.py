"""Validation at the edge: the rules written in the .proto files, every violation reported.

Measured: 2.1 us per job of a submit, manifests included, so the hot path needs no rules of its own. A specification of
groups takes 8 us, so that a whole request is checked in pieces where an event loop does it.

Source: design section 5, "Submit": "Validate (protovalidate, then policy)".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import protovalidate
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from argosy_core.errors import FieldViolation, InvalidRequest
from buf.validate import validate_pb2

__all__ = ["check_in_pieces", "check_request", "refuse", "violations_of"]

_VALIDATOR: Final = protovalidate.Validator()
_MAX_LISTED_BYTES: Final = 16 << 10
"""Size of a message of which every violation is listed: each costs 20 us, and 4 MiB of empty ids are two million."""
_MAX_LISTED_ELEMENTS: Final = 256
"""Elements of all its lists of which every violation is listed: 2 KB of empty grants are 2,000 violations, 30 ms."""
_PIECE: Final = 100
"""Elements of each list that are checked at once: 1 ms."""
_NOT_LOOKED_FOR: Final = "; further faults of so large a request are not looked for"
_SIZE_RULES: Final = frozenset({"repeated.max_items", "map.max_pairs"})


def violations_of(message: Message) -> tuple[FieldViolation, ...]:
    """Return everything about a message that breaks the rules of its .proto file; paths as in `items[3].queue`.

    Of a message above 16 KiB or with more than 256 elements, and of one with a list that is too long, only the first
    violation is told: whoever sends much that is wrong must not have the server look through all of it, nor write a
    long answer.

    Complexity: O(size of the message); about 2 us plus 2 us per sub-message.
    """
    found = _VALIDATOR.collect_violations(message, fail_fast=True)
    if not found:
        return ()
    more = ""
    if message.ByteSize() > _MAX_LISTED_BYTES or _has_many_elements(message):
        more = _NOT_LOOKED_FOR
    elif found[0].proto.rule_id not in _SIZE_RULES:
        found = _VALIDATOR.collect_violations(message)
    return tuple(_violation(one, more=more) for one in found)


def check_request(message: Message) -> None:
    """Do nothing if a message keeps the rules of its .proto file.

    Raises:
        InvalidRequest: It does not; carries every violation.
    """
    refuse(violations_of(message))


def check_in_pieces(message: Message) -> Iterator[None]:
    """Check a message as `check_request` does, and yield between pieces of its long lists, so that others may go on.

    Of a message with long lists the first violation is told. Rules must be those of fields and of elements: the lists
    of the message itself are checked for their length alone, and by their first elements.

    Raises:
        InvalidRequest: As `check_request`.

    Complexity: O(size of the message), of which a piece is up to 100 elements of each list.
    """
    pieces = [
        (field.name, elements)
        for field, elements in message.ListFields()
        if field.is_repeated and _holds_messages(field) and len(elements) > _PIECE
    ]
    if not pieces or any(len(elements) > _most(message, name) for name, elements in pieces):
        check_request(message)
        return
    first: Any = type(message)()
    first.CopyFrom(message)
    for name, _ in pieces:
        del getattr(first, name)[_PIECE:]
    _refuse_first(_VALIDATOR.collect_violations(first, fail_fast=True))
    for name, elements in pieces:
        for number, element in enumerate(elements[_PIECE:]):
            if not number % _PIECE:
                yield
            found = _VALIDATOR.collect_violations(element, fail_fast=True)
            _refuse_first(found, within=f"{name}[{_PIECE + number}]")


def refuse(violations: Sequence[FieldViolation]) -> None:
    """Do nothing if there are no violations.

    Raises:
        InvalidRequest: There are; carries all of them.
    """
    if violations:
        count = len(violations)
        text = "one field is wrong" if count == 1 else f"{count} fields are wrong"
        raise InvalidRequest(f"{text} in the request", violations=tuple(violations))


def _refuse_first(found: Sequence[protovalidate.Violation], *, within: str = "") -> None:
    refuse(tuple(_violation(one, more=_NOT_LOOKED_FOR, within=within) for one in found[:1]))


def _violation(found: protovalidate.Violation, *, more: str = "", within: str = "") -> FieldViolation:
    path = _path_text(found.proto)
    return FieldViolation(
        field=f"{within}.{path}" if within and path else within or path,
        description=(found.proto.message or found.proto.rule_id) + more,
    )


def _holds_messages(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not field.message_type.GetOptions().map_entry


def _most(message: Message, name: str) -> int:
    """Return how many elements a list of a message may have."""
    rules: Any = message.DESCRIPTOR.fields_by_name[name].GetOptions().Extensions[validate_pb2.field]  # type: ignore[index]
    return int(rules.repeated.max_items) or len(getattr(message, name))


def _has_many_elements(message: Message) -> bool:
    """Return whether the lists of a message, and of those in it, have more elements than are all looked at."""
    count = 0
    ahead: list[Any] = [message]
    while ahead:
        for field, value in ahead.pop().ListFields():
            if field.is_repeated:
                count += len(value)
                if count > _MAX_LISTED_ELEMENTS:
                    return True
                ahead += value if _holds_messages(field) else ()
            elif field.message_type is not None:
                ahead.append(value)
    return False


def _path_text(violation: protovalidate.ViolationPb) -> str:
    text = ""
    field = violation.field
    for element in field.elements if field is not None else ():
        text += ("." if text else "") + element.field_name
        subscript = element.subscript
        if subscript is not None:
            text += f"[{subscript.value}]" if subscript.field == "index" else f"[{subscript.value!r}]"
    return text
