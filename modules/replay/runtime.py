"""A container runtime that answers what the recorded one answered, when it answered it.

A call is matched by its operation, by what it is about (a pod's sandbox or container with its attempt, an id, an image,
a filter) and by its number among its like. What was recorded as an error is raised as that error. A call that changes
something and was never made in the recorded run is not answered: nobody knows what would have come of it.
"""

import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final, cast

import msgspec
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from grpc import StatusCode

from beehive import Runtime
from beehive.causes import current
from beehive.trace import CriCall
from beehive.trace.redact import Redactor
from edged.cri import errors
from edged.cri.contract import ContainerRuntime, ExecResult
from edged.cri.recording import CriEntry
from modules.replay.sequences import Answer, Sequences
from protos.cri.v1 import api_pb2 as pb

CHANGES: Final = frozenset(
    {
        "run_pod_sandbox",
        "stop_pod_sandbox",
        "remove_pod_sandbox",
        "create_container",
        "start_container",
        "stop_container",
        "remove_container",
        "pull_image",
        "remove_image",
        "update_container_resources",
        "reopen_container_log",
        "exec_sync",
    }
)
"""Calls that change something; the others look."""

_ANSWERS: Final[dict[str, type[Message] | list[type[Message]]]] = {
    "version": pb.VersionResponse,
    "status": pb.StatusResponse,
    "pod_sandbox_status": pb.PodSandboxStatusResponse,
    "container_status": pb.ContainerStatusResponse,
    "container_stats": pb.ContainerStats,
    "image_status": pb.Image,
    "list_pod_sandboxes": [pb.PodSandbox],
    "list_containers": [pb.Container],
    "list_container_stats": [pb.ContainerStats],
    "list_images": [pb.Image],
    "image_fs_info": [pb.FilesystemUsage],
}
"""Messages that answers are; ids stand for themselves."""

_ERROR: Final = re.compile(r"(\S+)(?: of (.*?))? failed: (.*) \(([A-Z_]+); .*\)", re.DOTALL)


class RecordedRuntime:
    """See the module's docstring.

    Args:
        actors: gives time, and futures to wait on.
        calls: that were recorded, in the order of their beginning.
        replace: puts this run's directories in the place of the recorded ones, in a JSON text.
    """

    def __init__(self, actors: Runtime, calls: list[CriCall], replace: Callable[[bytes], bytes]) -> None:
        self._actors = actors
        self._replace = replace
        self._redactor = Redactor()
        self._changed: dict[str, float] = {}
        """When the last change of an actor had been made in the recorded run."""
        self.unanswered: list[CriCall] = []
        """Calls that the recorded run never made."""
        self._answers = Sequences(
            (role(call.method, call.request), Answer(call.time - call.seconds, call.time, call)) for call in calls
        )

    def client(self) -> ContainerRuntime:
        """What edged holds of it."""
        return cast("ContainerRuntime", self)

    def close(self) -> None:
        """See the contract."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        names = _NAMES.get(method)
        if names is None:
            raise AttributeError(method)

        def call(*positional: Any, **named: Any) -> Any:
            return self._call(method, {**dict(zip(names, positional, strict=False)), **named})

        self.__dict__[method] = call
        return call

    def _call(self, method: str, arguments: dict[str, Any]) -> Any:
        entry = CriEntry(0.0, 0, 0, 0, "", method, arguments, None, None, 0.0)
        now = self._actors.clock.monotonic()
        call = entry.record(now, self._redactor)
        key = role(method, call.request)
        actor = current().actor
        if method in CHANGES:
            answer = self._answers.change(key)
        else:
            answer = self._answers.look(key, now, self._changed.get(actor, 0.0))
        if answer is None:
            self.unanswered.append(call)
        self._wait(None if answer is None else answer.end - now)
        assert answer is not None  # noqa: S101 - one that is not there is waited for without end
        if method in CHANGES:
            self._changed[actor] = answer.end
        if answer.value.error:
            raise _error(answer.value)
        return _answer(method, self._replace(answer.value.answer))

    def _wait(self, seconds: float | None) -> None:
        """Wait as long as the recorded call took; None: without end."""
        if seconds is not None and seconds <= 0:
            return
        over = self._actors.future()
        if seconds is not None:
            self._actors.clock.after(seconds, over.set)
        over.get()


def role(method: str, request: bytes) -> Hashable:
    """What a call is about: equal for the same call in two runs."""
    asked = msgspec.json.decode(request)
    match method:
        case "run_pod_sandbox":
            return method, *_metadata(asked["config"])
        case "create_container":
            return method, _metadata(asked["sandbox_config"])[0], *_metadata(asked["config"])
        case "pull_image":
            return method, asked["image"].get("image", "")
        case "stop_container" | "update_container_resources":
            return method, asked["container_id"]
        case _:
            said = {name: value for name, value in asked.items() if value}
            return method, msgspec.json.encode(said, order="deterministic")


def _metadata(config: dict[str, Any]) -> tuple[str, int]:
    """Uid (of a container its name) and attempt."""
    metadata = config.get("metadata", {})
    return metadata.get("uid") or metadata.get("name", ""), metadata.get("attempt", 0)


_NAMES: Final[dict[str, tuple[str, ...]]] = {
    name: function.__code__.co_varnames[1 : function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    for name, function in vars(ContainerRuntime).items()
    if not name.startswith("_") and hasattr(function, "__code__")
}
"""The methods of the contract, with the names of their arguments."""


@lru_cache(maxsize=4096)
def _answer(method: str, text: bytes) -> Any:
    """The answer that a JSON text stands for. Nobody changes an answer, so equal ones are one object."""
    value = msgspec.json.decode(text)
    if method == "exec_sync":
        return ExecResult(value["stdout"].encode(), value["stderr"].encode(), value["exit_code"])
    kind = _ANSWERS.get(method)
    if kind is None or value is None:
        return value
    if isinstance(kind, list):
        return [ParseDict(item, kind[0](), ignore_unknown_fields=True) for item in value]
    return ParseDict(value, kind(), ignore_unknown_fields=True)


def _error(call: CriCall) -> errors.CriError:
    kind = getattr(errors, call.error, errors.CriError)
    found = _ERROR.fullmatch(call.detail)
    if found is None:
        return cast("errors.CriError", kind(call.method, "", StatusCode.UNKNOWN, call.detail))
    operation, on, details, code = found.groups()
    return cast("errors.CriError", kind(operation, on or "", StatusCode[code], details))
