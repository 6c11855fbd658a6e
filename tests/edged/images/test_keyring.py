"""Which credentials an image gets: kubelet's rules, as tables."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.images.keyring import Credentials, Keyring, PullSecretError, matches, read_pull_secret, registry_key
from modules.apimachinery.types import ObjectMeta, Secret

HUB = "docker.io/library/busybox"


def keyring(*addresses: str) -> Keyring:
    """Each address with credentials of its own name."""
    return Keyring((address, Credentials(address, "p")) for address in addresses)


def found(ring: Keyring, repository: str) -> list[str]:
    return [each.username for each in ring.lookup(repository)]


def secret(value: Any, kind: str = "kubernetes.io/dockerconfigjson", key: str = ".dockerconfigjson") -> Secret:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Secret(metadata=ObjectMeta(name="pull", namespace="default"), type=kind, data={key: text})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("registry.example", "registry.example"),
        ("https://registry.example/", "registry.example"),
        ("http://registry.example:5000/v2/", "registry.example:5000"),
        ("https://index.docker.io/v1/", "index.docker.io"),
        ("registry.example/team", "registry.example/team"),
        ("registry.example/v1/team", "registry.example/team"),
        ("registry.example/v2", "registry.example/v2"),
    ],
)
def test_an_address_loses_its_scheme_and_the_path_of_the_api(address: str, key: str) -> None:
    assert registry_key(address) == key


@pytest.mark.parametrize(
    ("key", "repository", "yes"),
    [
        ("registry.example", "registry.example/app", True),
        ("registry.example", "other.example/app", False),
        ("registry.example", "registry.example:5000/app", False),
        ("registry.example:5000", "registry.example:5000/app", True),
        ("*.example", "registry.example/app", True),
        ("*.example", "a.registry.example/app", False),
        ("*.*.example", "a.registry.example/app", True),
        ("reg*.example", "registry.example/app", True),
        ("r?gistry.example", "registry.example/app", True),
        ("*.example:5000", "registry.example:5000/app", True),
        ("registry.example/team", "registry.example/team/app", True),
        ("registry.example/team", "registry.example/others/app", False),
        ("*", "localhost/app", True),
        ("*", "registry.example/app", False),
    ],
)
def test_hosts_match_label_by_label_ports_exactly_and_paths_by_their_beginning(
    key: str, repository: str, yes: bool
) -> None:
    assert matches(key, repository) is yes


def test_all_that_match_are_tried_the_most_specific_first() -> None:
    ring = keyring("*.example", "registry.example", "registry.example/team", "registry.example/other")
    assert found(ring, "registry.example/team/app") == ["registry.example/team", "registry.example", "*.example"]


def test_one_address_may_have_several_credentials_and_the_same_ones_are_tried_once() -> None:
    entries = [("r.example", Credentials(user, "p")) for user in ("one", "two", "one")]
    more = [("https://r.example", Credentials("two", "p")), ("*.example", Credentials("one", "p"))]
    assert found(Keyring([*entries, *more]), "r.example/app") == ["one", "two"]


@pytest.mark.parametrize("address", ["https://index.docker.io/v1/", "index.docker.io"])
def test_docker_hub_goes_by_its_old_name(address: str) -> None:
    assert found(keyring(address), HUB) == [address]
    assert found(keyring(address), "registry.example/app") == []


def test_credentials_for_docker_io_come_before_those_for_its_old_name() -> None:
    assert found(keyring("docker.io", "index.docker.io"), HUB) == ["docker.io"]


@pytest.mark.parametrize(
    "entry",
    [
        {"auth": encoded("user:pass:word")},
        {"auth": encoded("user:pass:word").rstrip("=")},
        {"auth": encoded("user:pass:word").replace("N", "N\n") + "\n"},
        {"auth": encoded("user:pass:word").rstrip("=").replace("N", "N\r\n")},
        {"username": "user", "password": "pass:word"},
        {"username": "other", "password": "x", "auth": encoded("user:pass:word")},
        {"username": "user", "password": "pass:word", "email": "a@b", "auth": ""},
    ],
)
def test_credentials_are_read_in_each_of_their_forms(entry: dict[str, str]) -> None:
    """`auth` is what counts when it is there; a password may hold colons."""
    expected = [("r.example", Credentials("user", "pass:word"))]
    assert read_pull_secret(secret({"auths": {"r.example": entry}})) == expected
    assert read_pull_secret(secret({"r.example": entry}, "kubernetes.io/dockercfg", ".dockercfg")) == expected


@pytest.mark.parametrize("padding", ["", "=", "=="])
@pytest.mark.parametrize("password", ["p", "pa", "pas"])
def test_padding_does_not_matter(password: str, padding: str) -> None:
    entry = {"auth": encoded(f"us:{password}").rstrip("=") + padding}
    assert read_pull_secret(secret({"auths": {"r": entry}})) == [("r", Credentials("us", password))]


@pytest.mark.parametrize(
    "other",
    [
        secret({"auths": {}}, "Opaque"),
        secret({}, key="other"),
        secret({"auths": None}),
        secret({}),
        Secret(type="kubernetes.io/dockercfg"),
    ],
)
def test_a_secret_without_credentials_is_passed_over(other: Secret) -> None:
    assert read_pull_secret(other) == []


@pytest.mark.parametrize(
    "broken",
    [
        b"hunter2",
        b"[]",
        b"\xff",
        {"auths": ["hunter2"]},
        {"auths": {"r.example": "hunter2"}},
        {"auths": {"r.example": {"auth": "hunter2!"}}},
        {"auths": {"r.example": {"auth": f"*{encoded('user:hunter2')}"}}},
        {"auths": {"r.example": {"auth": encoded("hunter2")}}},
        {"auths": {"r.example": {"auth": 7}}},
    ],
)
def test_an_unreadable_pull_secret_is_named_and_not_quoted(broken: Any) -> None:
    with pytest.raises(PullSecretError) as caught:
        read_pull_secret(secret(broken))
    assert "default/pull" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    error = caught.value
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None, "nor does a log show what has failed with it"


def test_credentials_do_not_show_in_a_representation() -> None:
    """Not even how long they are."""
    assert f"{[Credentials('u', 'hunter2')]}" == "[Credentials(…)]"


_LABEL = st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)


@given(st.lists(_LABEL, min_size=1, max_size=4), st.lists(_LABEL, min_size=1, max_size=3))
def test_an_exact_address_matches_its_own_images_and_stars_match_labels(labels: list[str], path: list[str]) -> None:
    host, repository = ".".join(labels), ".".join(labels) + "/" + "/".join(path)
    assert matches(registry_key(host), repository)
    assert matches(".".join("*" for _ in labels), repository)
    assert not matches(f"{host}.more", repository)
    assert not matches(f"{host}:1", repository)
