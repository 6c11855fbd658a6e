"""The information of verbose status calls, as containerd has it: an entry `info`, a JSON object.

Debugging tools read it (`crictl inspect`). It holds the environment of containers, and with it secrets: the socket is
for its owner only.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from protos.cri.v1 import api_pb2 as cri

Json = dict[str, Any]

ENTRY: Final = "info"


def container_info(container: RuntimeContainer, details: Mapping[str, Any]) -> dict[str, str]:
    """Return the information about a container; `details` is what its kind of runtime adds."""
    is_running = container.run is not None and container.exit is None
    return information({
        "sandboxID": container.sandbox_id,
        "pid": container.run.pid if container.run is not None and is_running else 0,
        "config": container_config(container.config),
        "directory": str(container.directory),
        **details,
    })  # fmt: skip


def sandbox_info(sandbox: Sandbox, details: Mapping[str, Any]) -> dict[str, str]:
    """Return the information about a sandbox; one without a process has 0 for it."""
    return information({
        "pid": 0,
        "runtimeHandler": sandbox.request.runtime_handler,
        "config": _plain(sandbox.config),
        "directory": str(sandbox.directory),
        **details,
    })  # fmt: skip


def image_info(specification: Mapping[str, Any], **more: Any) -> dict[str, str]:
    """Return the information about an image; `specification` is its configuration by the image specification."""
    return information({**more, "imageSpec": dict(specification)})


def information(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the map of a verbose answer."""
    return {ENTRY: json.dumps(content)}


def container_config(config: cri.ContainerConfig) -> Json:
    """Return the configuration of a container with CRI's names; values of variables are texts."""
    plain = _plain(config)
    if config.envs:
        plain["envs"] = [{"key": each.key, "value": each.value.decode(errors="replace")} for each in config.envs]
    return plain


def _plain(message: Message) -> Json:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - a quarter of a megabyte

    return MessageToDict(message, preserving_proto_field_name=True)
