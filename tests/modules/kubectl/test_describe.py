"""`describe` against a real cloudcore."""

import pytest

from tests.modules.kubectl.cloud import Cloud, config_map, event, node, pod
from tests.modules.kubectl.fixed_server import found_kubectl
from tests.modules.kubectl.relay import tcp_address_of

RUNNING = {"phase": "Running", "podIP": "10.0.0.5"}


def test_a_pod_with_its_events(cloud: Cloud) -> None:
    cloud.make(pod("web", status=RUNNING), pod("other"))
    cloud.make(event("late", "2026-11-20T09:00:00Z"), event("early", "2026-11-20T08:00:00Z"),
               event("else", "2026-11-20T08:00:00Z", target="other"))  # fmt: skip
    lines = cloud.run("describe", "pod", "web").lines
    assert lines[0].split() == ["Name:", "web"]
    assert "Status:           Running" in lines
    assert [line.split()[-1] for line in lines[-2:]] == ["early", "late"]
    assert "Events:" not in cloud.run("describe", "pod/web", "--show-events=false").out


def test_names_may_be_the_beginnings_of_names(cloud: Cloud) -> None:
    cloud.make(pod("web-a"), pod("web-b"), pod("db"))
    done = cloud.run("describe", "pod", "web")
    assert [line.split()[1] for line in done.lines if line.startswith("Name:")] == ["web-a", "web-b"]
    assert "\n\n\nName:" in done.out
    missing = cloud.run("describe", "pod", "nope")
    assert (missing.status, missing.err) == (1, 'Error from server (NotFound): pods "nope" not found\n')


def test_a_node_with_its_pods(cloud: Cloud) -> None:
    ended = {"phase": "Succeeded"}
    cloud.make(node("n1"), pod("web", status=RUNNING), pod("done", status=ended))
    done = cloud.run("describe", "node", "n1")
    assert "Non-terminated Pods:  (1 in total)" in " ".join(done.out.split("\n")).replace("          (", "  (")
    assert "web" in done.out
    assert "Allocated resources:" in done.lines


def test_several_kinds(cloud: Cloud) -> None:
    cloud.make(pod("web"), config_map(sky="blue"))
    done = cloud.run("describe", "pod/web", "cm/colours")
    assert [line.split()[1] for line in done.lines if line.startswith("Name:")] == ["web", "colours"]
    assert "sky:\n----\nblue\n" in done.out
    assert cloud.run("describe", "pods", "-l", "app=nothing").err == "No resources found in default namespace.\n"
    assert "missing" in cloud.run("describe").err


def test_the_real_kubectl_describes_the_same(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    resources = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "9Gi", "pods": "110"}
    cloud.make(node("n1") | {"status": {"capacity": resources, "allocatable": resources}})
    cloud.make(pod("web", status=RUNNING), config_map(sky="blue"))
    lease = {"name": "n1", "namespace": "kube-node-lease"}
    cloud.make({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease})
    about = {"kind": "Pod", "name": "web", "namespace": "default"}
    about["uid"] = cloud.run("get", "pod", "web", "-o", "jsonpath={.metadata.uid}").out.strip()
    cloud.make(event("e", "2026-01-20T09:00:00Z", involvedObject=about))
    with tcp_address_of(cloud.socket) as port, found_kubectl(port) as kubectl:
        for words in (("pod", "web"), ("cm", "colours"), ("node", "n1"), ("pods",)):
            assert _without_ages(kubectl.run("describe", *words)) == _without_ages(cloud.run("describe", *words).out)


def _without_ages(text: str) -> list[list[str]]:
    """The words of each line; an age can be another a second later."""
    return [[word for word in line.split() if not word.endswith(("s", "m"))] for line in text.splitlines()]
