"""What is in a container's environment, and what happens when it cannot be had."""

import base64

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.machine import NODE
from tests.end_to_end.pods import config_map, container, is_ready, state_of


def secret(name: str, **data: str) -> JsonObject:
    """A secret."""
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": coded}


def from_field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def from_resource(name: str, resource: str, divisor: str = "0") -> JsonObject:
    return {"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}}


def from_key(name: str, kind: str, source: str, key: str, **more: bool) -> JsonObject:
    return {"name": name, "valueFrom": {kind: {"name": source, "key": key, **more}}}


_FIELDS = once(
    "env-fields",
    "echo $NAME $SPACE $NODE $ACCOUNT $LABEL $NOTE; echo $IP; echo $UID_; echo $HOST; hostname -i",
    env=[
        from_field("NAME", "metadata.name"),
        from_field("SPACE", "metadata.namespace"),
        from_field("NODE", "spec.nodeName"),
        from_field("ACCOUNT", "spec.serviceAccountName"),
        from_field("LABEL", "metadata.labels['app']"),
        from_field("NOTE", "metadata.annotations['example.com/note']"),
        from_field("IP", "status.podIP"),
        from_field("UID_", "metadata.uid"),
        from_field("HOST", "status.hostIP"),
    ],
    serviceAccountName="worker",
)
_FIELDS["metadata"] |= {"labels": {"app": "web"}, "annotations": {"example.com/note": "hello"}}


_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}}


@wants(_ACCOUNT, _FIELDS)
def test_fields_of_the_pod(crowd: Crowd) -> None:
    first, address, uid, host, own = crowd.said("env-fields")
    made = crowd.machine.cloud.get("Pod", "env-fields")
    assert first == f"env-fields default {NODE} worker web hello"
    assert uid == made["metadata"]["uid"]
    assert host == made["status"]["hostIP"]
    assert address == own


@wants(
    once(
        "env-resources",
        "echo $CPU $MILLI $ASKED $MEMORY",
        env=[
            from_resource("CPU", "limits.cpu"),
            from_resource("MILLI", "limits.cpu", "1m"),
            from_resource("ASKED", "requests.memory"),
            from_resource("MEMORY", "limits.memory", "1Mi"),
        ],
        resources={"limits": {"cpu": "1500m", "memory": "32Mi"}, "requests": {"cpu": "10m", "memory": "16Mi"}},
    )
)
def test_resources_of_the_container_in_units_that_it_names(crowd: Crowd) -> None:
    """Rounded up, as a kubelet does."""
    assert crowd.said("env-resources") == [f"2 1500 {16 * 2**20} 32"]


@wants(
    config_map("env-config", colour="red"),
    secret("env-secret", word="xyzzy"),
    once(
        "env-keys",
        'echo $COLOUR $WORD "${NO_MAP-unset}" "${NO_KEY-unset}"',
        env=[
            from_key("COLOUR", "configMapKeyRef", "env-config", "colour"),
            from_key("WORD", "secretKeyRef", "env-secret", "word"),
            from_key("NO_MAP", "configMapKeyRef", "env-nowhere", "colour", optional=True),
            from_key("NO_KEY", "secretKeyRef", "env-secret", "none", optional=True),
        ],
    ),
)
def test_keys_of_configmaps_and_secrets(crowd: Crowd) -> None:
    """What is optional and not there is not set."""
    assert crowd.said("env-keys") == ["red xyzzy unset unset"]


@wants(
    config_map("env-all", colour="red", size="small"),
    secret("env-more", size="large"),
    once(
        "env-from",
        "echo $P_colour $size $colour $P_size; env | grep -c KUBERNETES || true",
        env_from=[
            {"configMapRef": {"name": "env-all"}},
            {"secretRef": {"name": "env-more"}},
            {"configMapRef": {"name": "env-all"}, "prefix": "P_"},
            {"configMapRef": {"name": "env-none", "optional": True}},
        ],
        env=[{"name": "colour", "value": "blue"}],
    ),
)
def test_all_keys_of_a_source_later_ones_win_and_no_services(crowd: Crowd) -> None:
    """`env` wins over `envFrom`, a later source over an earlier one; variables of services are left out."""
    assert crowd.said("env-from") == ["red large blue small", "0"]


@wants(lasting("env-missing", container(env=[from_key("A", "configMapKeyRef", "not-there", "key")])))
def test_missing_references_are_named_and_waited_for(crowd: Crowd) -> None:
    """The container starts when it has come."""
    waiting = crowd.wait("env-missing", lambda obj: "not-there" in state_of(obj, "waiting").get("message", ""))
    assert state_of(waiting, "waiting")["reason"] == "CreateContainerConfigError"
    crowd.machine.cloud.apply(config_map("not-there", key="x"))
    crowd.wait("env-missing", is_ready)


@wants(
    config_map("env-without-key", other="x"),
    lasting("env-no-key", container(env=[from_key("A", "configMapKeyRef", "env-without-key", "wanted")])),
)
def test_a_missing_key_is_named(crowd: Crowd) -> None:
    made = crowd.wait("env-no-key", lambda obj: "wanted" in state_of(obj, "waiting").get("message", ""))
    assert state_of(made, "waiting")["reason"] == "CreateContainerConfigError"
    assert "env-without-key" in state_of(made, "waiting")["message"]


@wants(once("env-directory", "pwd", container={"workingDir": "/var/new"}))
def test_a_working_directory_is_made(crowd: Crowd) -> None:
    assert crowd.said("env-directory") == ["/var/new"]
