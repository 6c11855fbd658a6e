"""Asks a Service of the examples by its name, as any program of the node can, or else any pod."""

import ipaddress
import subprocess
import sys
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final

from beehive.decoding import decode_json
from beehive.printable import printable
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.node_conditions import is_ready
from modules.edge.edgemesh.dns.explaining import Resolution
from modules.edge.edgemesh.owner import ServicesAnswer
from modules.processes.common.pod_commands.client import NodeClient, with_query
from modules.processes.demo.examples import ObjectName
from modules.processes.edgecore.socket_path import RESOLVE_PATH, SERVICES_PATH

_ANSWER_SECONDS: Final = 5.0
_LONGEST_ANSWER: Final = 200


def ask(socket: Path, name: ObjectName, file: Path | None = None) -> JsonObject:
    """Return the Service as the demo shows it: its status has what answered, or why nothing did.

    Args:
        socket: of the node's owner.
        name: of the Service.
        file: of the node's configuration, where only pods reach Services. One of them asks.
    """
    node = NodeClient(socket)
    status: JsonObject
    try:
        status = {"answer": _answer(node, name, file)}
    except (AttemptError, OSError, HTTPException, ValueError, subprocess.SubprocessError) as error:
        status = {"message": str(error) or type(error).__name__}
        with suppress(AttemptError, OSError):
            if any(ipaddress.ip_address(pod.status.host_ip or "::").is_loopback for pod in node.pods()):
                status = {"answer": "not asked: this machine has only loopback addresses, which are no endpoints"}
    return {"metadata": {"namespace": name.namespace, "name": name.name}, "status": status}


def _answer(node: NodeClient, name: ObjectName, file: Path | None) -> str:
    query = [("name", name.name), ("namespace", name.namespace)]
    found = decode_json(node.get(with_query(SERVICES_PATH, query)), ServicesAnswer)
    service = next(iter(found.services), None)
    if service is None or not service.ports:
        raise ValueError("the node does not know it yet")
    if not service.carried_by:
        raise ValueError(service.remark)
    port = service.ports[0]
    if file is not None:
        return _answer_to_pod(node, f"http://{name.name}.{name.namespace}:{port.port}", file)
    where = port.at or f"{service.addresses[0]}:{port.port}"
    called = _name_of(node, name, where)
    request = urllib.request.Request(f"http://{where}/", headers={"Host": name.name})
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - the node's own
        text = answer.read(_LONGEST_ANSWER).decode(errors="replace").strip()
    return f"{called}: {printable(text)}"


def _answer_to_pod(node: NodeClient, called: str, file: Path) -> str:
    """Let the first pod that is ready ask. Raises ValueError, OSError, AttemptError, SubprocessError."""
    ready = [each for each in node.pods() if is_ready(each.status)]
    if not ready:
        raise ValueError("no pod is ready to ask")
    pod = ready[0].metadata
    program = [sys.executable, "-m", "modules.processes.edgecore", "exec", "--config", str(file)]
    command = [*program, "--namespace", pod.namespace, pod.name, "--", "wget", "-q", "-O", "-", called]
    ended = subprocess.run(command, capture_output=True, timeout=_ANSWER_SECONDS, check=False, stdin=subprocess.DEVNULL)
    text = printable((ended.stderr if ended.returncode else ended.stdout).decode(errors="replace").strip())
    if ended.returncode:
        raise ValueError(f"pod {pod.name} gets no answer: {text[:_LONGEST_ANSWER]}")
    return f"{called} asked by pod {pod.name}: {text[:_LONGEST_ANSWER]}"


def _name_of(node: NodeClient, name: ObjectName, where: str) -> str:
    """Return the URL by the name, if that stands for the address on the node; by the address where nothing does."""
    query = [("name", name.name), ("namespace", name.namespace)]
    with suppress(AttemptError):
        found = decode_json(node.get(with_query(RESOLVE_PATH, query)), Resolution)
        address, _, port = where.rpartition(":")
        if address in found.addresses:
            return f"http://{name.name}:{port} at {address}"
    return f"http://{where}"
