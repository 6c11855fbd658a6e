"""What words name: pods, and the container that is meant."""

from typing import Any

import pytest

from modules.apimachinery.types import Pod, from_value
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.target import Chosen, PodTarget, container_of, only_word, pod_target


@pytest.mark.parametrize(
    ("word", "namespace", "target"),
    [
        ("web", "", PodTarget("default", "web")),
        ("web", "shop", PodTarget("shop", "web")),
        ("pod/web", "", PodTarget("default", "web")),
        ("pods/web", "shop", PodTarget("shop", "web")),
        ("po/web", "", PodTarget("default", "web")),
        ("shop/web", "", PodTarget("shop", "web")),
        ("shop/web", "shop", PodTarget("shop", "web")),
    ],
)
def test_a_pod_has_three_forms(word: str, namespace: str, target: PodTarget) -> None:
    assert pod_target(word, namespace) == target


@pytest.mark.parametrize(
    ("word", "namespace", "says"),
    [
        ("", "", "is wanted"),
        ("a/b/c", "", "is wanted"),
        ("/web", "", "is wanted"),
        ("shop/", "", "is wanted"),
        ("shop/web", "other", "-n other"),
        ("deploy/web", "", "name the pod itself"),
        ("deployments.apps/web", "", "name the pod itself"),
        ("hpa/web", "", "scale --replicas"),
    ],
)
def test_what_names_no_pod_is_reported(word: str, namespace: str, says: str) -> None:
    with pytest.raises(NodeError, match=says) as error:
        pod_target(word, namespace)
    assert error.value.usage


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_one_word_is_wanted(words: list[str]) -> None:
    with pytest.raises(NodeError, match="pod"):
        only_word(words, "pod")


def pod(*names: str, init: tuple[str, ...] = (), annotation: str = "") -> Pod:
    metadata: dict[str, Any] = {"name": "p", "namespace": "ns"}
    if annotation:
        metadata["annotations"] = {"kubectl.kubernetes.io/default-container": annotation}
    spec = {
        "containers": [{"name": name} for name in names],
        "initContainers": [{"name": name} for name in init],
        "ephemeralContainers": [{"name": "debug"}] if "several" in names else [],
    }
    return from_value(Pod, {"metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("one", "wanted", "chosen"),
    [
        (pod("app"), "", Chosen("app")),
        (pod("app", "side"), "side", Chosen("side")),
        (pod("app", "side"), "", Chosen("app", 'Defaulted container "app" out of: app, side')),
        (pod("app", init=("set-up",)), "", Chosen("app", 'Defaulted container "app" out of: app, set-up (init)')),
        (pod("app", init=("set-up",)), "set-up", Chosen("set-up")),
        (pod("several"), "", Chosen("several", 'Defaulted container "several" out of: several, debug (ephem)')),
        (pod("app", "side", annotation="side"), "", Chosen("side")),
        (pod("app", "side", annotation="gone"), "", Chosen("app", 'Defaulted container "app" out of: app, side')),
    ],
)
def test_without_a_name_the_first_container_is_meant(one: Pod, wanted: str, chosen: Chosen) -> None:
    assert container_of(one, wanted) == chosen


def test_an_unknown_container_is_named() -> None:
    with pytest.raises(NodeError, match=r"it has app, side"):
        container_of(pod("app", "side"), "other")
    with pytest.raises(NodeError, match="no container"):
        container_of(pod(), "")
