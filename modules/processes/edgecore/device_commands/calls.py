"""The command `edgecore devices call`: a method of a device, which its mapper carries out.

DMI has no call for methods. A mapper serves them by HTTP: mapper-framework on port 7777, a mapper in Python with
`--http-port`. The Device names them, and the properties that each takes a value for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from beehive.clock import RealClock
from beehive.decoding import decode_json
from beehive.errors import BeehiveError
from beehive.http.call import CallFailedError, HttpCall, HttpReply, perform
from modules.apimachinery.device_properties import desired_fault
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.device_commands.mappers import MappedParts, parts_of
from modules.processes.edgecore.local.node import report_errors
from modules.processes.edgecore.store_commands.database import opened
from modules.processes.edgecore.store_commands.shared import print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from modules.apimachinery.device_properties import ModelProperty
    from modules.edge.dmi.objects import Method

SECONDS: Final = 10.0
"""For the answer of a mapper (DMI's deadline of a call)."""
_LONGEST: Final = 64 * 1024
"""Bytes of an answer."""
_LONGEST_VALUE: Final = 1024


class MapperAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A mapper's answer to a call."""

    status_code: int
    message: str = msgspec.field(default="", name="Message")


def call(chosen: argparse.Namespace) -> int:
    """Call a method, or list the methods of a device."""
    with report_errors():
        parts = _parts(chosen)
        if chosen.method:
            _call(chosen, parts)
        else:
            _list(parts.device.spec.methods or (), as_json=chosen.json)
    return ExitCode.OK


def read_arguments(method: Method, words: Sequence[str], model: Mapping[str, ModelProperty]) -> dict[str, str]:
    """Return the values for a method's properties. Raises NodeError for a value that method or model forbids."""
    names = method.property_names or ()
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if len(names) == 1 and name != names[0]:
            name, equals, value = names[0], "=", word
        if not equals or name not in names or name in found:
            there = ", ".join(names) or "none"
            raise NodeError(
                "PROPERTY=VALUE is wanted, each property once", word, f"those of {method.name}: {there}", usage=True
            )
        found[name] = value
    if not found:
        raise NodeError(
            "no value", method.name, f"it takes PROPERTY=VALUE of: {', '.join(names) or 'nothing'}", usage=True
        )
    for name, value in found.items():
        _check(model, name, value)
    return found


def answer_of(reply: HttpReply) -> str:
    """Return the message of a mapper that has carried out a call. Raises NodeError for any other answer."""
    told = reply.body.decode(errors="replace").strip()[:300]
    if reply.status != 200:
        raise NodeError("the mapper refuses", told or str(reply.status))
    try:
        answer = decode_json(reply.body, MapperAnswer)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NodeError("the answer is no mapper's", told[:100], "--port names the mapper's port") from error
    if answer.status_code != 200:
        raise NodeError("the mapper refuses", answer.message[:300] or str(answer.status_code))
    return answer.message


def _parts(chosen: argparse.Namespace) -> MappedParts:
    try:
        with opened(chosen) as database:
            parts = parts_of(database, chosen.device)
    except BeehiveError as error:
        raise NodeError(str(error)) from error
    if parts is None:
        raise NodeError("the node has no such Device", chosen.device, "`edgecore devices list` shows those it has")
    return parts


def _call(chosen: argparse.Namespace, parts: MappedParts) -> None:
    methods = {one.name: one for one in parts.device.spec.methods or ()}
    method = methods.get(chosen.method)
    if method is None:
        there = ", ".join(sorted(methods)) or "it has none: spec.methods of the Device names them"
        raise NodeError("the device has no such method", chosen.method, f"its methods: {there}")
    properties = parts.model.spec.properties if parts.model is not None else None
    model = {one.name: one for one in properties or ()}
    values = read_arguments(method, chosen.arguments, model)
    if not parts.mapper:
        raise NodeError(
            "no mapper has registered", f"protocol {parts.protocol or '(none)'}", "start the device's mapper"
        )
    done: dict[str, str] = {}
    for name, value in values.items():
        try:
            done[name] = _asked(chosen, name, value)
        except NodeError as error:
            raise NodeError(f"{error}{_before(done)}") from error
    if chosen.json:
        print_json({"device": chosen.device, "method": method.name, "answers": done})
    else:
        print_lines(done.values())


def _asked(chosen: argparse.Namespace, name: str, value: str) -> str:
    path = "/".join(quote(part, safe="") for part in (*chosen.device.split("/"), chosen.method, name, value))
    asked = HttpCall("GET", "127.0.0.1", chosen.port, f"/api/v1/devicemethod/{path}")
    clock = RealClock()
    try:
        return answer_of(perform(asked, clock, seconds=SECONDS, most_bytes=_LONGEST))
    except CallFailedError as error:
        where = f"port {chosen.port}"
        if not error.sent:
            hint = "the mapper serves methods on common.http_port of its config.yaml, or on --http-port"
            raise NodeError("the mapper cannot be called", f"{where}: {error.why}", hint) from error
        raise NodeError("no answer", f"{where}: {error.why}", "whether it was done is not known") from error
    finally:
        clock.close()


def _check(model: Mapping[str, ModelProperty], name: str, value: str) -> None:
    if not value or "/" in value or len(value) > _LONGEST_VALUE:
        why = f"a mapper takes values of 1 to {_LONGEST_VALUE} characters without a slash: they are part of a path"
        raise NodeError("the value cannot be sent", name, why)
    if model and (fault := desired_fault(model.get(name), name, value)):
        raise NodeError("the device's model forbids it", name, fault)


def _before(done: Mapping[str, str]) -> str:
    return f"; before that, {', '.join(done)} was done" if done else ""


def _list(methods: Sequence[Method], *, as_json: bool) -> None:
    if as_json:
        print_json([_method_document(one) for one in methods], indent=2)
        return
    rows = [(one.name, ", ".join(one.property_names or ()) or "-", one.description or "-") for one in methods]
    print_table(("METHOD", "PROPERTIES", "DESCRIPTION"), rows)


def _method_document(method: Method) -> dict[str, Any]:
    names = list(method.property_names or ())
    return {"name": method.name, "description": method.description, "properties": names}
