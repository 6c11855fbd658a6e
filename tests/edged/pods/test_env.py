"""A container gets the environment that a kubelet would give it."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import ConfigError, FieldReferenceError, MissingSourceError, TooLargeError
from edged.pods.config import env
from edged.pods.config.downward import DownwardView, field_value
from edged.pods.config.env import environment, impossible_names
from edged.pods.config.expansion import expand
from modules.apimachinery.types import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    ResourceFieldSelector,
    ResourceRequirements,
    Secret,
    SecretEnvSource,
    SecretKeySelector,
)
from tests.edged.pods.builders import UID, a_container, a_pod

VIEW = DownwardView(
    pod_ips=("10.0.0.1", "fd00::1"),
    host_ips=("192.0.2.2",),
    allocatable={"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
)


class Known:
    """A namespace with one configmap and one secret."""

    def config_map(self, name: str) -> ConfigMap | None:
        return ConfigMap(data={"greeting": "hello", "bad=name": "x"}) if name == "cm" else None

    def secret(self, name: str) -> Secret | None:
        return Secret(data={"password": b"s3cr3t", "raw": b"\xff", "zero": b"a\0b"}) if name == "sec" else None


def env_of(*variables: EnvVar, froms: tuple[EnvFromSource, ...] = (), **container: Any) -> dict[str, str]:
    pod = a_pod(
        a_container("a", env=variables, env_from=froms, **container),
        a_container("other", resources=ResourceRequirements(limits={"cpu": "3"})),
        meta={"labels": {"app": "x", "b": 'q"'}, "annotations": {"note": "ñ"}},
        node_name="edge-1",
        service_account_name="sa",
    )
    return environment(pod, pod.spec.containers[0], Known(), VIEW)


def test_variables_of_services_fill_the_rest_and_can_be_referred_to() -> None:
    links = {"WEB_SERVICE_HOST": "10.96.0.1", "WEB_PORT": "tcp://10.96.0.1:80"}
    pod = a_pod(a_container("a", env=(EnvVar(name="URL", value="http://$(WEB_SERVICE_HOST)"), EnvVar("WEB_PORT", "1"))))
    found = environment(pod, pod.spec.containers[0], Known(), VIEW, links)
    assert found == {"URL": "http://10.96.0.1", "WEB_PORT": "1", "WEB_SERVICE_HOST": "10.96.0.1"}


def var(name: str, value: str = "", **source: Any) -> EnvVar:
    return EnvVar(name=name, value=value, value_from=EnvVarSource(**source) if source else None)


def field(path: str) -> EnvVar:
    return var("V", field_ref=ObjectFieldSelector(field_path=path))


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$(A)-$(B)", "1-$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$()", "$()"),
        ("$((A))", "$((A))"),
    ],
)
def test_references_are_replaced_once(text: str, expanded: str) -> None:
    """Known names are replaced, unknown ones stay, a doubled dollar sign escapes, values are not looked at
    again.
    """
    assert expand(text, {"A": "1", "B": "$(A)"}) == expanded


@given(st.text(alphabet=st.characters(exclude_characters="$")), st.dictionaries(st.text(), st.text()))
def test_text_without_dollar_is_left_alone(text: str, variables: Mapping[str, str]) -> None:
    """Expansion changes nothing where there is nothing to expand."""
    assert expand(text, variables) == text


def test_values_refer_to_what_stands_before_them() -> None:
    """A variable sees earlier ones and envFrom's, not later ones; a later one of a name replaces the
    earlier.
    """
    froms = (EnvFromSource(config_map_ref=ConfigMapEnvSource(name="cm")),)
    result = env_of(var("A", "$(B)$(greeting)"), var("B", "2"), var("C", "$(B)"), var("A", "3"), froms=froms)
    assert result == {"greeting": "hello", "B": "2", "C": "2", "A": "3"}


def test_env_from_has_prefixes_and_leaves_out_impossible_names() -> None:
    """All keys of both kinds come with their prefix; a key with an equals sign cannot be a variable."""
    froms = (
        EnvFromSource(prefix="C_", config_map_ref=ConfigMapEnvSource(name="cm")),
        EnvFromSource(secret_ref=SecretEnvSource(name="nope", optional=True)),
    )
    assert env_of(froms=froms) == {"C_greeting": "hello"}


class OneSecret(Known):
    """A secret whose values can all be variables."""

    def secret(self, name: str) -> Secret | None:
        return Secret(data={"b": b"2", "a": b"1", "no=name": b"x"}) if name == "sec" else None


def test_env_from_has_the_keys_of_a_secret() -> None:
    """The left-out keys are told with their source."""
    froms = (
        EnvFromSource(prefix="S_", secret_ref=SecretEnvSource(name="sec")),
        EnvFromSource(config_map_ref=ConfigMapEnvSource(name="cm")),
        EnvFromSource(config_map_ref=ConfigMapEnvSource(name="nope", optional=True)),
    )
    pod = a_pod(a_container("a", env_from=froms))
    container = pod.spec.containers[0]
    found = environment(pod, container, OneSecret(), VIEW)
    assert list(found.items()) == [("S_a", "1"), ("S_b", "2"), ("greeting", "hello")]
    assert impossible_names(container, OneSecret()) == {"secret sec": ("no=name",), "configMap cm": ("bad=name",)}
    plain = a_container("a", env_from=(EnvFromSource(prefix="P_", config_map_ref=ConfigMapEnvSource(name="other")),))
    assert impossible_names(plain, OneGreeting()) == {}


class OneGreeting(Known):
    """A configmap whose keys can all be variables."""

    def config_map(self, name: str) -> ConfigMap | None:
        return ConfigMap(data={"greeting": name})


def test_all_variables_together_have_the_room_that_linux_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes its name, an equals sign, its value and a zero byte, whatever its source."""
    links = {"L": "l"}
    froms = (EnvFromSource(prefix="C", config_map_ref=ConfigMapEnvSource(name="m")),)
    pod = a_pod(a_container("a", env=(EnvVar("V", "v"),), env_from=froms))
    needed = sum(len(text) for text in ("Cgreeting=m0", "V=v0", "L=l0"))
    for room, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(env, "LARGEST_START", room)
        if fits:
            environment(pod, pod.spec.containers[0], OneGreeting(), VIEW, links)
        else:
            with pytest.raises(TooLargeError, match=r"L \(all variables"):
                environment(pod, pod.spec.containers[0], OneGreeting(), VIEW, links)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "bb1"),
        ("metadata.namespace", "default"),
        ("metadata.uid", UID),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['note']", "ñ"),
        ("metadata.annotations", 'note="ñ"'),
        ("metadata.labels", 'app="x"\nb="q\\""'),
        ("spec.nodeName", "edge-1"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "192.0.2.2"),
        ("status.podIP", "10.0.0.1"),
        ("status.podIPs", "10.0.0.1,fd00::1"),
        ("status.hostIPs", "192.0.2.2"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    """Each path that Kubernetes offers gives the pod's own value."""
    assert env_of(field(path)) == {"V": value}


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"\\', r"a\"\\"),
        ("\a\b\f\n\r\t\v", r"\a\b\f\n\r\t\v"),
        ("\0\x1b\x7f", r"\x00\x1b\x7f"),
        ("\x80\u00a0\u200b\u2028", r"\u0080\u00a0\u200b\u2028"),
        ("ñ😀\U000e0001", r"ñ😀\U000e0001"),
    ],
)
def test_annotations_are_quoted_as_go_quotes(text: str, quoted: str) -> None:
    pod = a_pod(meta={"annotations": {"note": text}})
    found = field_value(pod, ObjectFieldSelector(field_path="metadata.annotations"), VIEW)
    assert found == f'note="{quoted}"'


def test_unknown_field_is_refused() -> None:
    """A path that does not exist is an error that names it."""
    with pytest.raises(FieldReferenceError, match=re.escape("'spec.containers'")):
        env_of(field("spec.containers"))


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        (ResourceFieldSelector(resource="limits.cpu"), "2"),
        (ResourceFieldSelector(resource="limits.hugepages-2Mi"), "0"),
        (ResourceFieldSelector(resource="requests.cpu"), "1"),
        (ResourceFieldSelector(resource="requests.cpu", divisor="1m"), "250"),
        (ResourceFieldSelector(resource="limits.memory", divisor="1Mi"), "64"),
        (ResourceFieldSelector(resource="requests.memory"), "67108864"),
        (ResourceFieldSelector(resource="limits.cpu", container_name="other"), "3"),
        (ResourceFieldSelector(resource="limits.memory", container_name="other"), str(2**30)),
        (ResourceFieldSelector(resource="requests.ephemeral-storage"), "0"),
        (ResourceFieldSelector(resource="limits.ephemeral-storage"), "0"),
    ],
)
def test_resources_of_a_container(selector: ResourceFieldSelector, value: str) -> None:
    """Amounts are divided and rounded up; a missing limit is the node's, a missing request the limit."""
    resources = ResourceRequirements(requests={"cpu": "250m"}, limits={"memory": "64Mi", "cpu": "0"})
    assert env_of(var("V", resource_field_ref=selector), resources=resources) == {"V": value}


@pytest.mark.parametrize("resource", ["cpu", "limits.", "max.cpu"])
def test_unknown_resource_is_refused(resource: str) -> None:
    """Only limits and requests can be referred to."""
    with pytest.raises(FieldReferenceError, match="resourceFieldRef"):
        env_of(var("V", resource_field_ref=ResourceFieldSelector(resource=resource)))


def test_keys_of_objects() -> None:
    """Single keys of both kinds become values; what is optional and missing is no variable at all."""
    assert env_of(
        var("G", config_map_key_ref=ConfigMapKeySelector(name="cm", key="greeting")),
        var("P", secret_key_ref=SecretKeySelector(name="sec", key="password")),
        var("O", config_map_key_ref=ConfigMapKeySelector(name="none", key="k", optional=True)),
        var("Q", secret_key_ref=SecretKeySelector(name="sec", key="none", optional=True)),
    ) == {"G": "hello", "P": "s3cr3t"}


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (var("V", config_map_key_ref=ConfigMapKeySelector(name="none", key="k")), "configmap not found: none"),
        (var("V", config_map_key_ref=ConfigMapKeySelector(name="cm", key="k")), "key not found in configmap: cm: k"),
        (var("V", secret_key_ref=SecretKeySelector(name="none", key="k")), "secret not found: none"),
        (var("V", secret_key_ref=SecretKeySelector(name="sec", key="k")), "key not found in secret: sec: k"),
    ],
)
def test_missing_object_or_key_is_named(variable: EnvVar, message: str) -> None:
    """The error says which object or key is missing, that it may come, and shows no value."""
    with pytest.raises(MissingSourceError, match=message) as raised:
        env_of(variable)
    assert raised.value.retryable
    assert "s3cr3t" not in str(raised.value)


def test_missing_object_of_env_from_is_named() -> None:
    """A whole object that is required and missing is named too."""
    with pytest.raises(MissingSourceError, match="configmap not found: nope"):
        env_of(froms=(EnvFromSource(config_map_ref=ConfigMapEnvSource(name="nope")),))
    with pytest.raises(MissingSourceError, match="secret not found: nope"):
        env_of(froms=(EnvFromSource(secret_ref=SecretEnvSource(name="nope")),))


def test_zero_byte_is_refused_without_showing_the_value() -> None:
    """The kernel cannot take it; the error names the variable only."""
    with pytest.raises(ConfigError, match="cannot set the variable: V"):
        env_of(var("V", secret_key_ref=SecretKeySelector(name="sec", key="zero")))
