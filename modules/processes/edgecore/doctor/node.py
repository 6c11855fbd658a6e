"""Queries the running edgecore over its socket, and the container runtime over CRI."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from edged.cri.client import CriClient
from edged.cri.endpoint import EndpointError
from edged.cri.errors import CriError
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor import machine
from modules.processes.edgecore.doctor.facts import Condition, DockerNeeds, Running, Runtime
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.top.state import PATH, AgentState, LinkReport

SECONDS: Final = 2.5
_METRIC: Final = re.compile(
    rb"^(edgehub_connected|edgestream_connected|edgehub_waiting_messages|eventbus_connected|dmi_mapper_up)"
    rb'(?:\{(?:\w+="([^"]*)")?[^}]*\})? (\S+)$',
    re.MULTILINE,
)


def running(config: EdgeCoreConfig, proc: Path = machine.PROC) -> Running:
    """Return the facts of this node's edgecore process."""
    pid = machine.lock_holder(config.modules.edged.root_directory, proc)
    if not pid:
        return Running(has_unit=machine.has_unit())
    node = NodeClient(socket_path(config))
    try:
        node.get("/healthz")
        health = "ok"
    except NodeError as error:
        if not error.status:
            return Running(pid=pid, problem=str(error))
        health = "; ".join(str(error).split("\n"))
    connected, tunnel, waiting = None, None, 0.0
    labelled: dict[bytes, dict[str, bool]] = {b"eventbus_connected": {}, b"dmi_mapper_up": {}}
    with suppress(NodeError):
        for name, label, value in _METRIC.findall(node.get("/metrics")):
            if name == b"edgehub_connected":
                connected = float(value) > 0
            elif name == b"edgestream_connected":
                tunnel = float(value) > 0
            elif name in labelled:
                labelled[name][label.decode(errors="replace")] = float(value) > 0
            else:
                waiting += float(value)
    link = LinkReport()
    with suppress(NodeError, msgspec.MsgspecError, UnicodeError):
        link = decode_json(node.get(PATH), AgentState).link
    return Running(
        pid=pid,
        health=health,
        connected=connected,
        tunnel=tunnel,
        waiting=round(waiting),
        link_problem=link.why,
        replaced_at=link.replaced_at,
        brokers=labelled[b"eventbus_connected"],
        mappers=labelled[b"dmi_mapper_up"],
    )


def runtime(config: EdgeCoreConfig) -> Runtime:
    """Return the facts of the container runtime."""
    endpoint = config.runtime_endpoint
    try:
        client = CriClient(endpoint, request_timeout=SECONDS)
    except EndpointError as error:
        return Runtime(endpoint=endpoint, problem=str(error))
    try:
        version, status = client.version(), client.status(verbose=True)
    except CriError as error:
        return Runtime(endpoint=endpoint, problem=str(error))
    finally:
        client.close()
    return Runtime(
        endpoint=endpoint,
        version=f"{version.runtime_name} {version.runtime_version}",
        conditions=tuple(
            Condition(each.type, each.status, f"{each.reason} {each.message}".strip())
            for each in status.status.conditions
        ),
        cgroup_driver=cgroup_driver(status.info.get("config", "")),
    )


def cgroup_driver(text: str) -> str:
    """Return the cgroup driver in containerd's configuration of its default runtime; empty if it is not there.

    runc's option SystemdCgroup is false if it is missing (io.containerd.runc.v2).
    """
    try:
        containerd = decode_json(text)["containerd"]
        name = containerd.get("defaultRuntimeName") or "runc"
        runtime: Any = containerd["runtimes"][name]
        if not runtime["runtimeType"].startswith("io.containerd.runc."):
            return ""
        return "systemd" if (runtime["options"] or {}).get("SystemdCgroup") else "cgroupfs"
    except (msgspec.DecodeError, UnicodeError, LookupError, TypeError, AttributeError):
        return ""


def docker_needs(socket: Path, clock: Clock) -> DockerNeeds:
    """Return the requirements of the runtime embedded://docker: a Docker Engine that answers.

    Args:
        socket: of Docker Engine.
        clock: for its time limits.
    """
    from modules.runtimes.docker.answers import Info  # noqa: PLC0415 - other nodes have none
    from modules.runtimes.docker.client import DockerClient  # noqa: PLC0415
    from modules.runtimes.engine.errors import RequestRefusedError  # noqa: PLC0415

    client = DockerClient(socket, clock)
    try:
        client.negotiate()
        driver = client.get("/info", Info, "ask Docker what it is").cgroup_driver
    except RequestRefusedError as error:
        return DockerNeeds(problem=error.reason)
    return DockerNeeds(api=".".join(map(str, client.version)), cgroup_driver=driver)
