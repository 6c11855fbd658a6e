"""A person's day with kubectl's verbs: a cloud and a node in processes of their own, and `cloudcore` typed at them."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import is_ready
from tests.end_to_end.processes import REPOSITORY, run_program, wait_until
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.gives_its_machine_back


def cloudcore(machine: Machine, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `cloudcore WORDS` to its end."""
    verb, *rest = words
    return run_program("cloudcore", verb, "--socket", str(machine.cloud.socket), *rest, given=given)


def test_a_pod_is_applied_described_changed_and_replaced(machine: Machine, tmp_path: Path) -> None:
    run = partial(cloudcore, machine)
    file = tmp_path / "greeter.yaml"
    text = (REPOSITORY / "examples" / "greeter.yaml").read_text()
    file.write_text(text)
    assert run("apply", "-f", str(file)).stdout.splitlines() == ["configmap/greeting created", "pod/greeter created"]
    machine.cloud.pods.wait("greeter", is_ready)
    assert run("diff", "-f", str(file)).returncode == 0
    described = run("describe", "pod", "greeter").stdout
    for line in ("Status:           Running", "    Restart Count:  0", "  Ready                       True "):
        assert line in described.splitlines()
    assert "      /greeting from greeting (ro)" in described.splitlines()
    node = run("describe", "node").stdout
    assert "Non-terminated Pods:" in node
    assert "greeter" in node
    phases = run("get", "pods", "-o", r'jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\n"}{end}')
    assert phases.stdout.strip() == "greeter=Running"
    columns = run("get", "pods", "-o", "custom-columns=NAME:.metadata.name,IMAGES:.spec.containers[*].image")
    assert [line.split() for line in columns.stdout.splitlines()] == [["NAME", "IMAGES"], ["greeter", "busybox:1.36"]]

    file.write_text(text.replace("good morning", "good night"))
    changed = run("diff", "-f", str(file))
    assert (changed.returncode, "+  greeting.txt: good night" in changed.stdout) == (1, True)
    assert run("apply", "-f", "-", given=file.read_text()).stdout.splitlines() == [
        "configmap/greeting configured", "pod/greeter unchanged",
    ]  # fmt: skip
    uid = run("get", "pod", "greeter", "-o", "jsonpath={.metadata.uid}").stdout
    replaced = run("replace", "--force", "-f", str(file))
    assert replaced.returncode == 0, replaced.stderr
    assert run("get", "pod", "greeter", "-o", "jsonpath={.metadata.uid}").stdout != uid
    wait_until(lambda: is_ready(machine.cloud.get("pods", "greeter")), "the new pod is ready")


def test_a_deployment_and_a_job_are_made_rolled_out_and_deleted(machine: Machine) -> None:
    run = partial(cloudcore, machine)

    def templates() -> list[str]:
        found = run("get", "pods", "-o", "jsonpath={.items[*].metadata.labels.pod-template-hash}").stdout
        return found.split()

    made = run("create", "deployment", "web", "--image=busybox:1.36", "--replicas=2", "--", "sleep", "1d")
    assert made.stdout == "deployment.apps/web created\n", made.stderr
    assert run("rollout", "status", "deployment/web").stdout.endswith('"web" successfully rolled out\n')
    first, second = templates()
    assert first == second
    assert run("rollout", "restart", "deployment/web").stdout == "deployment.apps/web restarted\n"
    assert run("rollout", "status", "deployment/web").stdout.endswith('"web" successfully rolled out\n')
    wait_until(lambda: len(templates()) == 2 and first not in templates(), "only the new pods are left")
    assert run("rollout", "undo", "deployment/web").stdout == "deployment.apps/web rolled back\n"
    wait_until(lambda: templates() == [first, first], "the former template is back")
    assert run("create", "job", "sum", "--image=busybox:1.36", "--", "true").returncode == 0
    done = run("wait", "--for=condition=Complete", "job/sum", f"--timeout={PATIENCE:.0f}s")
    assert done.stdout == "job.batch/sum condition met\n", done.stderr
    assert run("delete", "deployment/web", "job/sum").returncode == 0
    wait_until(lambda: not run("get", "pods", "-o", "name").stdout, "the pods are gone with what made them")


APPLICATION = """
apiVersion: apps.kubeedge.io/v1alpha1
kind: NodeGroup
metadata: {name: plant}
spec: {nodes: [edge-1, edge-9]}
---
apiVersion: apps.kubeedge.io/v1alpha1
kind: EdgeApplication
metadata: {name: shop}
spec:
  workloadTemplate:
    manifests:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: main, image: "busybox:1.36", command: [sleep]}]}
  workloadScope:
    targetNodeGroups:
      - {name: plant, overriders: {argsOverriders: [{containerName: main, operator: add, value: [1d]}]}}
      - {name: office}
"""


def test_an_application_runs_in_the_node_group_that_there_is(machine: Machine) -> None:
    run = partial(cloudcore, machine)
    wrong = run("apply", "-f", "-", given=APPLICATION.replace("office", "plant"))
    assert 'spec.workloadScope.targetNodeGroups[1]: Duplicate value: "plant"' in wrong.stderr
    assert run("apply", "-f", "-", given=APPLICATION).returncode == 0
    wait_until(lambda: "shop   1/2" in run("get", "eapp").stdout, "one of two Deployments is available")
    assert run("get", "ng").stdout.split()[:5] == ["NAME", "READY", "AGE", "plant", "1/2"]
    (name, node) = run(
        "get", "pods", "-o", "jsonpath={.items[?(@.spec.nodeName)]['metadata.name','spec.nodeName']}"
    ).stdout.split()
    assert (name.startswith("web-plant-"), node) == (True, NODE)
    without = APPLICATION.replace("      - {name: office}\n", "")
    assert run("apply", "-f", "-", given=without).returncode == 0
    wait_until(lambda: run("get", "deployments", "-o", "name").stdout == "deployment.apps/web-plant\n", "one is left")
    assert run("delete", "-f", "-", given=APPLICATION).returncode == 0
    wait_until(lambda: not run("get", "pods,deployments,nodegroups", "-o", "name").stdout, "all is gone")
    assert "belonging-to" not in run("get", "node", NODE, "-o", "yaml").stdout
