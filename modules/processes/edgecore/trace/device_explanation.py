"""Explains a device from a trace, or from the node on this machine: why a desired value has not arrived."""

import argparse
from pathlib import Path
from typing import Final

import msgspec

from beehive import Clock, RealClock
from beehive.decoding import decode_json
from beehive.http.authority import server_of
from beehive.names import CLOUD_DISCONNECTED, CONNECTION_RESOURCE, ModuleName
from beehive.sockets import dialling
from beehive.trace import StoreCommit
from beehive.trace.format import Delivered
from beehive.trace.reader import read
from modules.apimachinery.attempts import AttemptError
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.location import load_node
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.store_commands.database import opened
from modules.processes.edgecore.top.state import PATH, AgentState
from modules.processes.edgecore.trace.device_diagnosis import DeviceDiagnosis, NodeFacts, diagnose_device
from modules.processes.edgecore.trace.device_rows import KINDS, rows_of

_DIAL_SECONDS: Final = 2.0
"""Longest attempt to reach the MQTT broker."""

_MQTT_OFF: Final = "MQTT is off (modules.eventBus.enable is false)"


def explained_by_node(chosen: argparse.Namespace, device_id: str) -> DeviceDiagnosis:
    """Explain a device of the node that the arguments select, whether edgecore runs or not.

    Raises:
        BeehiveError: the database cannot be read.
        ConfigError: the configuration cannot be read.
    """
    with opened(chosen) as database:
        rows = {one.key: one.value.encode() for kind in KINDS for one in database.objects(kind)}
    config = load_node(chosen).config
    return diagnose_device(rows_of(device_id, rows), _facts(config))


def explained_by_trace(path: Path, device_id: str) -> DeviceDiagnosis:
    """Explain a device from the store's commits in a trace, as it was at the trace's end.

    Raises:
        TraceError: the trace cannot be read.
    """
    rows: dict[str, bytes] = {}
    end, link, mqtt, commits = 0.0, "", _MQTT_OFF, False
    with read(path) as trace:
        for record in trace:
            end = max(end, record.time)
            if isinstance(record, StoreCommit):
                commits = True
                _apply(record, rows)
            elif isinstance(record, Delivered):
                mqtt = "" if record.module.partition("/")[0] == ModuleName.EVENTBUS else mqtt
                link = _link_after(record, link)
        now = int((trace.header.began + end) * 1000)
    if not commits:
        return DeviceDiagnosis(
            f"device {device_id}", known=False, summary="the trace has no commits of the node's store",
            next="`edgecore trace explain device NAMESPACE/NAME` asks the node itself",
        )  # fmt: skip
    return diagnose_device(rows_of(device_id, rows), NodeFacts(now, mqtt, link))


def _apply(record: StoreCommit, rows: dict[str, bytes]) -> None:
    if record.error or record.operation not in ("opened", "commit"):
        return
    if record.operation == "opened":
        rows.clear()
    for change in record.changes:
        if change.operation == "delete":
            rows.pop(change.key, None)
        elif change.kind in KINDS:
            rows[change.key] = change.value


def _link_after(record: Delivered, before: str) -> str:
    if record.message.resource != CONNECTION_RESOURCE:
        return before
    lost = record.message.content == msgspec.json.encode(CLOUD_DISCONNECTED)
    return "there is no connection to the cloud" if lost else ""


def _facts(config: EdgeCoreConfig) -> NodeFacts:
    clock = RealClock()
    like_kubeedge = config.modules.device_twin.like_kube_edge
    facts = NodeFacts(clock.now_ms(), _mqtt(config, clock), like_kubeedge=like_kubeedge)
    if not config.modules.device_twin.enable:
        return msgspec.structs.replace(facts, stopped="devicetwin is off (modules.deviceTwin.enable is false)")
    try:
        state = decode_json(NodeClient(socket_path(config)).get(PATH), AgentState)
    except (AttemptError, msgspec.DecodeError):
        return msgspec.structs.replace(facts, stopped="edgecore does not run here")
    module = state.modules.get(str(ModuleName.DEVICETWIN))
    if module is not None and module.state != "ready":
        return msgspec.structs.replace(facts, stopped=f"devicetwin is {module.state} {module.reason}".rstrip())
    link = state.link
    if not link.enabled or link.connected_at is not None:
        return facts
    return msgspec.structs.replace(facts, link=f"there is no connection to the cloud: {link.why or 'not yet'}")


def _mqtt(config: EdgeCoreConfig, clock: Clock) -> str:
    """Return why applications cannot be reached by MQTT; the brokers of the mode are dialled."""
    bus = config.modules.event_bus
    if not bus.enable:
        return _MQTT_OFF
    brokers = []
    if config.runs_mqtt_broker:
        brokers.append(("internal MQTT broker", bus.mqtt_server_internal))
    if bus.mqtt_mode != 0:
        brokers.append(("MQTT broker", bus.mqtt_server_external))
    for name, server in brokers:
        try:
            dialling.connect(*server_of(server), clock, _DIAL_SECONDS).close()
        except OSError as error:
            return f"the {name} {server} is away: {error.strerror or error}"
    return ""
