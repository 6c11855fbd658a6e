"""What pods may do with their files, and that what they do to them harms nobody else."""

from pathlib import Path

from tests.end_to_end.crowd.crowd import Crowd, once, wants
from tests.end_to_end.crowd.test_environment import secret
from tests.end_to_end.pods import mount

_SOMEBODY = {"runAsUser": 1000, "runAsGroup": 1000}
_DISK = {"name": "disk", "emptyDir": {}}
_TOKEN = {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 3600}}]}


@wants(
    once(
        "rights-sub",
        "touch /data/file && stat -c %a /data",
        mounts=[mount("disk", "/data", subPath="deep/er")],
        volumes=[_DISK],
        securityContext=_SOMEBODY,
    )
)
def test_a_sub_path_has_the_owner_of_its_volume(crowd: Crowd) -> None:
    assert crowd.said("rights-sub") == ["777"]


@wants(
    once(
        "rights-token",
        "stat -L -c %u:%a /all/token; test -s /all/token && echo read",
        mounts=[mount("all", "/all")],
        volumes=[{"name": "all", "projected": _TOKEN}],
        securityContext=_SOMEBODY,
    )
)
def test_a_token_is_its_users_alone(crowd: Crowd) -> None:
    assert crowd.said("rights-token") == ["1000:600", "read"]


@wants(
    secret("rights-secret", key="mine"),
    once(
        "rights-memory",
        "grep -E ' /(secret|token|info|disk) ' /proc/mounts | cut -d ' ' -f 2,3 | sort",
        mounts=[mount(name, f"/{name}") for name in ("secret", "token", "info", "disk")],
        volumes=[
            {"name": "secret", "secret": {"secretName": "rights-secret"}},
            {"name": "token", "projected": _TOKEN},
            {"name": "info", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            _DISK,
        ],
    ),
)
def test_secrets_are_in_memory(crowd: Crowd) -> None:
    disk, *others = crowd.said("rights-memory")
    assert others == ["/info tmpfs", "/secret tmpfs", "/token tmpfs"]
    assert disk.startswith("/disk ")
    assert not disk.endswith("tmpfs")


@wants(
    once(
        "rights-hosts",
        "echo 10.6.6.6 rights-attack >> /etc/hosts; head -n 1 /etc/hosts; grep -c rights-attack /etc/hosts",
        hostNetwork=True,
        container={"securityContext": {"capabilities": {"drop": ["ALL"]}}},
    )
)
def test_a_pod_on_the_hosts_network_cannot_write_the_machines_hosts(crowd: Crowd) -> None:
    """Root without any capability owns the machine's file; it has a copy."""
    assert crowd.said("rights-hosts") == ["# Kubernetes-managed hosts file (host network).", "1"]
    assert "rights-attack" not in Path("/etc/hosts").read_text()


@wants(
    once(
        "rights-deep",
        "cd /disk; i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit 1; i=$((i + 1)); done; echo $i",
        mounts=[mount("disk", "/disk")],
        volumes=[_DISK],
        securityContext=_SOMEBODY,
    )
)
def test_a_tree_that_is_nested_deeply_goes_with_its_pod(crowd: Crowd) -> None:
    """That nothing is left of it is seen when all pods are deleted."""
    assert crowd.said("rights-deep") == ["1500"]
