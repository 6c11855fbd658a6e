"""Rules and RuleEndpoints as the router remembers them, and the routes that they make. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of
from modules.apimachinery.unvalidated import as_object, as_text
from modules.cloud.router.paths import PathPattern, read_pattern
from modules.cloud.router.topics import is_topic, is_topic_filter
from modules.cloud.rules import RULE_ENDPOINT

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST: Final = 1024
_VISIBLE: Final = "!$%&'()*+,/:;=?@[]~"


class EndpointRecord(msgspec.Struct, frozen=True):
    """A RuleEndpoint."""

    type: str
    """rest, eventbus or servicebus."""
    port: int
    """Port of a servicebus; 0 without a valid one."""


class RuleRecord(msgspec.Struct, frozen=True):
    """A Rule."""

    key: ObjectKey
    uid: str
    created: str
    """RFC 3339: of two Rules with one path or URL the older one has it."""
    source: str
    target: str
    """Names of RuleEndpoints."""
    source_resource: dict[str, str]
    target_resource: dict[str, str]


class RuleFault(msgspec.Struct, frozen=True):
    """Why a Rule makes no route."""

    reason: str
    message: str


class ServicePath(msgspec.Struct, frozen=True):
    """The port and path of an application's HTTP server on a node, which gets requests."""

    port: int
    path: str


class TargetUrl(msgspec.Struct, frozen=True):
    """The URL of a server that the cloud calls with messages of nodes."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, quoted."""


class RouteClaim(NamedTuple):
    """What one Rule alone can have: a URL of a node's applications, or callers' paths of a namespace."""

    owner: str
    """The node of a URL, which has no namespace; the namespace of paths."""
    named: str | tuple[str, ...]
    """The URL; the parts of the paths."""


class RuleRoute(msgspec.Struct, frozen=True):
    """The route of a valid Rule."""

    rule: RuleRecord
    pattern: PathPattern | None = None
    """Pattern of callers' paths; None for messages of a node."""
    node: str = ""
    resource: str = ""
    """The resource of the node's messages: a topic filter with the namespace before it, or a URL."""
    is_url: bool = False
    """Whether the resource is a URL that applications ask servicebus for."""
    is_reserved: bool = False
    """Whether it only keeps the URL for its Rule, whose RuleEndpoints are not there, or do not fit."""
    topic: str = ""
    """Requests become messages under this topic, if it is not empty."""
    service: ServicePath | None = None
    server: TargetUrl | None = None

    @property
    def claim(self) -> RouteClaim | None:
        """What of several Rules the oldest has; None for a topic, whose messages each Rule gets."""
        if self.pattern is not None:
            return RouteClaim(self.rule.key.namespace, self.pattern.matched)
        return claim_of_url(self.node, self.resource) if self.is_url else None


def claim_of_url(node: str, url: str) -> RouteClaim:
    """Return the claim of a URL that applications of a node ask for."""
    return RouteClaim(node, url)


def reserved_of(rule: RuleRecord) -> RuleRoute | None:
    """Return what keeps the URL that a Rule names from younger ones while it makes no route; None if it names none.
    Otherwise an old Rule could get a URL that another one has, as soon as its RuleEndpoints come.
    """
    url, node = rule.source_resource.get("target_url", ""), rule.source_resource.get("node_name", "")
    return RuleRoute(rule, node=node, resource=url, is_url=True, is_reserved=True) if url and node else None


Endpoints = Mapping[ObjectKey, EndpointRecord]


def endpoint_record(obj: JsonObject) -> EndpointRecord:
    """Return the record of a RuleEndpoint; a field of an unexpected type counts as absent."""
    spec = as_object(obj.get("spec"))
    return EndpointRecord(
        as_text(spec.get("ruleEndpointType")), _port(_texts(spec.get("properties")).get("service_port"))
    )


def rule_record(obj: JsonObject) -> RuleRecord:
    """Return the record of a Rule."""
    spec = as_object(obj.get("spec"))
    return RuleRecord(
        key=key_of(obj),
        uid=uid_of(obj),
        created=as_text(obj["metadata"].get("creationTimestamp")),
        source=as_text(spec.get("source")),
        target=as_text(spec.get("target")),
        source_resource=_texts(spec.get("sourceResource")),
        target_resource=_texts(spec.get("targetResource")),
    )


def endpoint_key(rule: RuleRecord, name: str) -> ObjectKey:
    """Return the key of a RuleEndpoint that a Rule names."""
    return ObjectKey(RULE_ENDPOINT.key_name, rule.key.namespace, name)


def route_of(rule: RuleRecord, endpoints: Endpoints) -> RuleRoute | RuleFault:
    """Return the route of a Rule, or why it makes none."""
    found = []
    for name in (rule.source, rule.target):
        endpoint = endpoints.get(endpoint_key(rule, name))
        if endpoint is None:
            why = f"there is no RuleEndpoint {name[:253]} in the namespace: create it, or name another"
            return RuleFault("EndpointNotFound", why)
        found.append(endpoint)
    source, target = found
    if source.type != "servicebus" and "target_url" in rule.source_resource:
        return _fault("sourceResource.target_url", "it is for a RuleEndpoint of type servicebus: leave it out")
    make = _PAIRS.get((source.type, target.type))
    if make is None:
        why = f"from {source.type[:20]} to {target.type[:20]} nothing is routed: one of the two must be rest"
        return RuleFault("PairNotSupported", why)
    return make(rule, target)


def _to_topic(rule: RuleRecord, _target: EndpointRecord) -> RuleRoute | RuleFault:
    pattern, topic = read_pattern(rule.source_resource.get("path", "")), rule.target_resource.get("topic", "")
    if pattern is None:
        return _fault("sourceResource.path", "a path such as /door/{id} is wanted")
    if not is_topic(topic):
        return _fault("targetResource.topic", "a topic without wildcards is wanted")
    return RuleRoute(rule, pattern=pattern, topic=topic)


def _to_service(rule: RuleRecord, target: EndpointRecord) -> RuleRoute | RuleFault:
    pattern, path = read_pattern(rule.source_resource.get("path", "")), rule.target_resource.get("path", "")
    if pattern is None:
        return _fault("sourceResource.path", "a path such as /door/{id} is wanted")
    if not path.startswith("/") or len(path) > _LONGEST or not path.isprintable():
        return _fault("targetResource.path", "a path such as /api is wanted")
    if not target.port:
        why = f"RuleEndpoint {rule.target} has no properties.service_port from 1 to 65535"
        return RuleFault("InvalidEndpoint", why)
    return RuleRoute(rule, pattern=pattern, service=ServicePath(target.port, quote(path, safe="/-._~!$&'()*+,;=@%")))


def _from_topic(rule: RuleRecord, _target: EndpointRecord) -> RuleRoute | RuleFault:
    topic = "/".join(filter(None, rule.source_resource.get("topic", "").split("/")))  # as KubeEdge's path.Join
    resource = f"{rule.key.namespace}/{topic}"
    if not is_topic_filter(resource) or not topic:
        return _fault("sourceResource.topic", "a topic is wanted, + and # as in MQTT")
    return _from_node(rule, resource, is_url=False)


def _from_url(rule: RuleRecord, _target: EndpointRecord) -> RuleRoute | RuleFault:
    url = rule.source_resource.get("target_url", "")
    if "://" not in url or len(url) > _LONGEST or not url.isprintable():
        return _fault("sourceResource.target_url", "a URL such as http://orders.example/new is wanted")
    return _from_node(rule, url, is_url=True)


def _from_node(rule: RuleRecord, resource: str, *, is_url: bool) -> RuleRoute | RuleFault:
    node, server = rule.source_resource.get("node_name", ""), _server(rule.target_resource.get("resource", ""))
    if not node or "/" in node:
        return _fault("sourceResource.node_name", "the name of a node is wanted")
    if server is None:
        return _fault("targetResource.resource", "a URL http://HOST/PATH or https://HOST/PATH is wanted")
    return RuleRoute(rule, node=node, resource=resource, is_url=is_url, server=server)


_PAIRS: Final[dict[tuple[str, str], Callable[[RuleRecord, EndpointRecord], RuleRoute | RuleFault]]] = {
    ("rest", "eventbus"): _to_topic,
    ("rest", "servicebus"): _to_service,
    ("eventbus", "rest"): _from_topic,
    ("servicebus", "rest"): _from_url,
}


def _fault(field: str, why: str) -> RuleFault:
    return RuleFault("InvalidResource", f"spec.{field}: {why}")


def _server(url: str) -> TargetUrl | None:
    """Return the parts of a URL without user and password, which would be in statuses and logs; None for another."""
    try:
        split = urlsplit(url)
        port = split.port or _PORTS[split.scheme]
    except (KeyError, ValueError):
        return None
    host = split.hostname
    if len(url) > _LONGEST or not url.isprintable() or not host or "@" in split.netloc:
        return None
    target = quote(split.path or "/", safe=_VISIBLE) + (f"?{quote(split.query, safe=_VISIBLE)}" if split.query else "")
    return TargetUrl(split.scheme, host, port, target)


def _port(text: str | None) -> int:
    number = whole_number(text, 5) or 0
    return number if number < 65536 else 0


def _texts(value: Any) -> dict[str, str]:
    return {key: each for key, each in as_object(value).items() if isinstance(each, str)}
