"""The states of rollouts, tables of revisions, and patches of images."""

from typing import Any
from unittest.mock import Mock

import pytest

from modules.cli.errors import KubectlError
from modules.kubectl import rollout
from modules.kubectl.rollout import RolloutRevision, history_table, rollout_status
from modules.kubectl.set import changes

Json = dict[str, Any]


def obj(kind: str, status: Json, **spec: Any) -> Json:
    given = {"observedGeneration": 1, **status}
    return {"kind": kind, "metadata": {"name": "web", "generation": 1}, "spec": spec, "status": given}


@pytest.mark.parametrize(
    ("found", "text", "is_done"),
    [
        (obj("Deployment", {"observedGeneration": 0}), "Waiting for deployment spec update to be observed...", False),
        (obj("Deployment", {"updatedReplicas": 1, "replicas": 3}, replicas=3), "1 out of 3 new replicas", False),
        (obj("Deployment", {"updatedReplicas": 3, "replicas": 4}, replicas=3), "1 old replicas are pending", False),
        (obj("Deployment", {"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2}, replicas=3), "2 of 3", False),
        (obj("Deployment", {"updatedReplicas": 1, "replicas": 1, "availableReplicas": 1}), "successfully", True),
        (obj("DaemonSet", {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1}), "1 out of 2 new pods", False),
        (
            obj("DaemonSet", {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}),
            'daemon set "web" successfully rolled out',
            True,
        ),
        (obj("StatefulSet", {"readyReplicas": 1}, replicas=3), "Waiting for 2 pods to be ready...", False),
        (obj("StatefulSet", {"readyReplicas": 1, "updatedReplicas": 1}), "rolling update complete 1 pods", True),
    ],
)
def test_states(found: Json, text: str, is_done: bool) -> None:
    state = rollout_status(found)
    assert text in state.text
    assert state.is_done is is_done


def test_objects_without_a_state_or_with_a_bad_one() -> None:
    late = {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}
    for found, why in (
        (obj("Deployment", late), 'deployment "web" exceeded its progress deadline'),
        (obj("Pod", {}), "no status viewer"),
        (obj("DaemonSet", {}, updateStrategy={"type": "OnDelete"}), "only available for RollingUpdate"),
    ):
        with pytest.raises(KubectlError, match=why):
            rollout_status(found)


def test_revisions() -> None:
    assert history_table([RolloutRevision(1, "", {}), RolloutRevision(12, "new image", {})]).splitlines() == [
        "REVISION  CHANGE-CAUSE", "1         <none>", "12        new image",
    ]  # fmt: skip


@pytest.mark.parametrize(("to", "number"), [("0", 2), ("1", 1)])
def test_an_undo_goes_to_the_last_revision_but_one_or_to_the_given_one(
    monkeypatch: pytest.MonkeyPatch, to: str, number: int
) -> None:
    def template(number: int, **labels: str) -> Json:
        return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"hostname": f"h{number}"}}

    found = [RolloutRevision(each, "", template(each, **{"pod-template-hash": "x"})) for each in (1, 2, 3)]
    monkeypatch.setattr(rollout, "revisions_of", lambda *_: found)
    monkeypatch.setattr(rollout, "print_result", lambda *_: None)
    session = Mock()
    rollout._undo(session, Mock(to_revision=to), Mock(), {"spec": {"template": template(3)}})
    (change,) = session.client.request.call_args.args[3]
    assert change == {"op": "replace", "path": "/spec/template", "value": template(number)}


def test_patches_of_images() -> None:
    spec = {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}
    found = {"kind": "Deployment", "spec": {"template": {"spec": spec}}}
    assert changes(found, {"b": "z"}) == {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "z"}]}}}}
    assert len(changes({"kind": "Pod", "spec": spec}, {"*": "z"})["spec"]["containers"]) == 2
    cron_job = {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}
    assert changes(cron_job, {"a": "z"})["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    with pytest.raises(KubectlError, match='unable to find container named "c"'):
        changes(found, {"c": "z"})
