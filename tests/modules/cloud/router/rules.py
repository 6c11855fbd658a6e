"""Rules and RuleEndpoints for tests."""

from typing import Any

from modules.cloud.rules import RULES_API_VERSION

Json = dict[str, Any]
REST, MQTT, HTTP = "rest", "eb", "sb"
"""Names of RuleEndpoints."""


def endpoint(name: str, kind: str, namespace: str = "cap", **properties: str) -> Json:
    """A RuleEndpoint."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    spec = {"ruleEndpointType": kind, "properties": properties}
    return {"apiVersion": RULES_API_VERSION, "kind": "RuleEndpoint", "metadata": metadata, "spec": spec}


def endpoints(port: int = 18832) -> list[Json]:
    """One of each type."""
    return [endpoint(REST, "rest"), endpoint(MQTT, "eventbus"), endpoint(HTTP, "servicebus", service_port=str(port))]


def rule(name: str, source: str, given: Json, target: str, wanted: Json, namespace: str = "cap") -> Json:
    """A Rule."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": "2026-11-20T16:00:00Z"}
    spec = {"source": source, "sourceResource": given, "target": target, "targetResource": wanted}
    return {"apiVersion": RULES_API_VERSION, "kind": "Rule", "metadata": metadata, "spec": spec}


def to_topic(path: str = "/a", topic: str = "capt", name: str = "r1") -> Json:
    """From callers to a broker."""
    return rule(name, REST, {"path": path}, MQTT, {"topic": topic})


def to_service(path: str = "/svc", target: str = "/api", name: str = "r3") -> Json:
    """From callers to an application."""
    return rule(name, REST, {"path": path}, HTTP, {"path": target})


def from_topic(url: str, topic: str = "up", node: str = "n1", name: str = "r2") -> Json:
    """From a broker to a server."""
    return rule(name, MQTT, {"topic": topic, "node_name": node}, REST, {"resource": url})


def from_url(url: str, asked: str = "http://cap.example/call", node: str = "n1", name: str = "r4") -> Json:
    """From an application to a server."""
    return rule(name, HTTP, {"target_url": asked, "node_name": node}, REST, {"resource": url})
