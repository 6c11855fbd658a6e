"""Volumes and other files of pods, and what happens when they are missing or grow too large."""

import base64
import json

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.crowd.test_environment import secret
from tests.end_to_end.pods import config_map, container, is_ready, mount, state_of

_SOURCES: list[JsonObject] = [
    {"configMap": {"name": "files-config", "items": [{"key": "a", "path": "config/a"}]}},
    {"secret": {"name": "files-secret"}},
    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 3600}},
    {"configMap": {"name": "files-nowhere", "optional": True}},
]


@wants(
    config_map("files-config", a="1", b="2"),
    secret("files-secret", word="hunter2"),
    once(
        "files-projected",
        "cd /all; ls; for f in config/a word name token; do cat $f; echo; done; stat -L -c %a word token",
        mounts=[mount("all", "/all", readOnly=True)],
        volumes=[{"name": "all", "projected": {"sources": _SOURCES, "defaultMode": 0o440}}],
    ),
)
def test_many_sources_in_one_volume_with_a_token(crowd: Crowd) -> None:
    """The token is for the audience that was asked for, and bound to the pod."""
    *listed, one, word, name, token, mode, token_mode = crowd.said("files-projected")
    assert listed == ["config", "name", "token", "word"]
    assert (one, word, name, mode, token_mode) == ("1", "hunter2", "files-projected", "440", "440")
    claims = token.split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert said["aud"] == ["vault"]
    assert said["kubernetes.io"]["pod"]["name"] == "files-projected"


_GROUP: JsonObject = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 4321}


@wants(
    secret("files-owned", key="mine"),
    once(
        "files-group",
        "touch /disk/a /memory/a && stat -c %g /disk /disk/a /memory/a; cat /secret/key; stat -L -c %g:%a /secret/key",
        mounts=[mount("disk", "/disk"), mount("memory", "/memory"), mount("secret", "/secret")],
        volumes=[
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "secret", "secret": {"secretName": "files-owned", "defaultMode": 0o400}},
        ],
        securityContext=_GROUP,
    ),
)
def test_a_group_owns_the_pods_volumes(crowd: Crowd) -> None:
    """Its members may write an emptyDir, and read a secret that otherwise only its owner can."""
    assert crowd.said("files-group") == ["4321", "4321", "4321", "mine4321:440"]


@wants(
    lasting(
        "files-missing",
        container(volumeMounts=[mount("late", "/late")]),
        volumes=[{"name": "late", "secret": {"secretName": "files-late"}}],
    )
)
def test_a_pod_names_the_volume_that_it_waits_for(crowd: Crowd) -> None:
    """And starts when it is there."""
    made = crowd.wait("files-missing", lambda obj: "files-late" in state_of(obj, "waiting").get("message", ""))
    assert state_of(made, "waiting")["reason"] == "ContainerCreating"
    crowd.machine.cloud.apply(secret("files-late", key="x"))
    crowd.wait("files-missing", is_ready)


@wants(
    lasting(
        "files-full",
        container("head -c 3000000 /dev/zero > /small/file; exec sleep 600", volumeMounts=[mount("small", "/small")]),
        volumes=[{"name": "small", "emptyDir": {"sizeLimit": "1Mi"}}],
        terminationGracePeriodSeconds=1,
    )
)
def test_a_pod_that_outgrows_its_volume_is_evicted(crowd: Crowd) -> None:
    reason, message = crowd.failed("files-full")
    assert reason == "Evicted"
    assert '"small" exceeds the limit "1Mi"' in message


@wants(once("files-words", "echo last words > /tmp/words; exit 0", container={"terminationMessagePath": "/tmp/words"}))
def test_last_words_are_in_the_status(crowd: Crowd) -> None:
    crowd.said("files-words")
    ended = crowd.machine.cloud.get("Pod", "files-words")
    assert state_of(ended, "terminated")["message"] == "last words\n"


@wants(once("files-hosts", "grep files-hosts /etc/hosts; hostname -i"))
def test_a_pod_finds_itself_in_its_hosts_file(crowd: Crowd) -> None:
    line, address = crowd.said("files-hosts")
    assert line.split() == [address, "files-hosts"]
