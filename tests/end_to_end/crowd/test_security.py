"""What a container may do. More of it is in test_isolation.py beside this."""

from tests.end_to_end.crowd.crowd import Crowd, once, wants
from tests.end_to_end.pods import container, mount, pod, state_of

_NO_FILE = {"type": "Localhost", "localhostProfile": "no-directories.json"}


@wants(once("security-profile", "mkdir /x 2>/dev/null || echo refused; touch /y && echo made", security={
    "seccompProfile": _NO_FILE}))  # fmt: skip
def test_a_seccomp_profile_of_the_node(crowd: Crowd) -> None:
    assert crowd.said("security-profile") == ["refused", "made"]


@wants(once("security-dropped", "chown 5 /tmp 2>/dev/null || echo refused; chmod 700 /home && echo done", security={
    "capabilities": {"drop": ["CHOWN"]}}))  # fmt: skip
def test_one_capability_less(crowd: Crowd) -> None:
    assert crowd.said("security-dropped") == ["refused", "done"]


@wants(once("security-added", "ip link set lo down && echo done; ip link set lo up", security={
    "capabilities": {"add": ["NET_ADMIN"]}}))  # fmt: skip
def test_one_capability_more(crowd: Crowd) -> None:
    assert crowd.said("security-added") == ["done"]


@wants(once("security-somebody", "id -u", securityContext={"runAsNonRoot": True, "runAsUser": 1234}))
def test_somebody_who_is_not_root_may_run_where_root_may_not(crowd: Crowd) -> None:
    assert crowd.said("security-somebody") == ["1234"]


@wants(
    once(
        "security-read-only",
        "touch /x 2>/dev/null || echo refused; echo kept > /tmp/x; cat /tmp/x",
        security={"readOnlyRootFilesystem": True},
        mounts=[mount("tmp", "/tmp")],
        volumes=[{"name": "tmp", "emptyDir": {}}],
    )
)
def test_only_its_volumes_can_be_written(crowd: Crowd) -> None:
    assert crowd.said("security-read-only") == ["refused", "kept"]


@wants(once("security-privileged", "mkdir /m && mount -t tmpfs none /m && [ -c /dev/kmsg ] && echo both", security={
    "privileged": True}))  # fmt: skip
def test_who_is_privileged_may_mount_and_has_the_machines_devices(crowd: Crowd) -> None:
    assert crowd.said("security-privileged") == ["both"]


@wants(once("security-plain", "mkdir /m; mount -t tmpfs none /m 2>/dev/null || echo refused; ls /dev/kmsg /dev/mem "
            "2>/dev/null | wc -l"))  # fmt: skip
def test_an_unprivileged_container_may_not_and_has_none(crowd: Crowd) -> None:
    assert crowd.said("security-plain") == ["refused", "0"]


_WATCHED = pod(
    "security-together",
    container("exec sleep 600", "first"),
    container("until pidof sleep > /dev/null; do usleep 100000; done; [ $$ = 1 ] || echo both; exec tail -f", "second"),
    shareProcessNamespace=True,
)


@wants(_WATCHED)
def test_containers_that_share_their_processes_see_each_other(crowd: Crowd) -> None:
    """The first process is the sandbox's, which takes care of orphans, and theirs are not."""
    crowd.says("security-together", "both", among="second")


@wants(once("security-user-namespace", "read inside outside rest < /proc/self/uid_map; echo $inside; [ $outside != 0 ]",
            hostUsers=False))  # fmt: skip
def test_a_user_namespace_of_its_own_is_given_or_refused(crowd: Crowd) -> None:
    """containerd 1.6 has none."""
    if crowd.machine.runtime.name == "oci":
        assert crowd.said("security-user-namespace") == ["0"]
        return
    made = crowd.wait("security-user-namespace", lambda obj: "hostUsers" in state_of(obj, "waiting").get("message", ""))
    assert state_of(made, "waiting")
