"""`create` and `replace` against a real cloudcore."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.modules.kubectl.cloud import Cloud, config_map, pod
from tests.modules.kubectl.test_apply import POD, config, write


def made(cloud: Cloud, *words: str) -> Any:
    """What `create WORDS --dry-run=client -o yaml` prints."""
    done = cloud.run("create", *words, "--dry-run=client", "-o", "yaml")
    assert done.status == 0, done.err
    return yaml.safe_load(done.out)


def test_objects_of_files_are_created_once(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", config(), POD)
    assert cloud.run("create", "-f", file, "--dry-run=server").lines[0] == "configmap/colours created (server dry run)"
    assert cloud.run("create", "-f", file).lines == ["configmap/colours created", "pod/web created"]
    again = cloud.run("create", "-f", file)
    assert again.status == 1
    assert again.err.splitlines() == [
        f'Error from server (AlreadyExists): error when creating "{file}:1": configmaps "colours" already exists',
        f'Error from server (AlreadyExists): error when creating "{file}:6": pods "web" already exists',
    ]


def test_the_server_makes_names_of_generate_name(cloud: Cloud, tmp_path: Path) -> None:
    file = write(tmp_path / "x.yaml", config().replace("name: colours", "generateName: colours-"))
    made = cloud.run("create", "-f", file, "-o", "name").out
    assert made.startswith("configmap/colours-")
    assert len(made.strip()) > len("configmap/colours-")
    assert "generateName is for `create`" in cloud.run("apply", "-f", file).err


def test_a_configmap_of_literals(cloud: Cloud) -> None:
    words = ("configmap", "colours", "--from-literal=sky=blue", "--from-literal", "sea='dark=green'")
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colours"},
              "data": {"sky": "blue", "sea": "dark=green"}}  # fmt: skip
    assert made(cloud, *words) == wanted
    assert made(cloud, "cm", "colours", "-n", "there")["metadata"] == {"name": "colours", "namespace": "there"}
    assert cloud.run("create", *words).lines == ["configmap/colours created"]
    assert cloud.run("get", "cm", "colours", "-o", "json").object["data"] == wanted["data"]
    done = cloud.run("create", *words)
    assert (done.status, done.err) == (
        1, 'Error from server (AlreadyExists): failed to create configmap: configmaps "colours" already exists\n',
    )  # fmt: skip


def test_a_configmap_of_files(cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/text.conf").write_text("one\ntwo\n")
    (tmp_path / "d/binary").write_bytes(b"\xff\x00")
    (tmp_path / "env").write_bytes("# comment\nA=1\r\n\n  B=x=y\nC=1\f2\u20283\n".encode())
    obj = made(cloud, "cm", "x", f"--from-file={tmp_path}/d", f"--from-file=named={tmp_path}/d/text.conf",
               f"--from-env-file={tmp_path}/env")  # fmt: skip
    assert obj["data"] == {"text.conf": "one\ntwo\n", "named": "one\ntwo\n", "A": "1", "B": "x=y", "C": "1\f2\u20283"}
    assert obj["binaryData"] == {"binary": "/wA="}


def test_secrets(cloud: Cloud, tmp_path: Path) -> None:
    obj = made(cloud, "secret", "generic", "door", "--from-literal=key=1234")
    assert (obj["type"], obj["data"]) == ("Opaque", {"key": "MTIzNA=="})
    (tmp_path / "pem").write_text("x")
    tls = made(cloud, "secret", "tls", "t", f"--cert={tmp_path}/pem", f"--key={tmp_path}/pem")
    assert (tls["type"], set(tls["data"])) == ("kubernetes.io/tls", {"tls.crt", "tls.key"})
    words = ("--docker-username=u", "--docker-password=p")
    registry = made(cloud, "secret", "docker-registry", "r", *words)
    assert registry["type"] == "kubernetes.io/dockerconfigjson"
    assert registry["data"] == {
        ".dockerconfigjson": "eyJhdXRocyI6eyJodHRwczovL2luZGV4LmRvY2tlci5pby92MS8iOnsidXNlcm5hbWUiOiJ1Iiwi"
        "cGFzc3dvcmQiOiJwIiwiYXV0aCI6ImRUcHcifX19"
    }
    assert cloud.run("create", "secret", "generic", "door", "--from-literal=key=1").lines == ["secret/door created"]


def test_a_namespace(cloud: Cloud) -> None:
    assert made(cloud, "ns", "there") == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "there"}}


def test_a_pod(cloud: Cloud) -> None:
    """What `kubectl run` makes; `run` starts the cloud here."""
    assert made(cloud, "pod", "web", "--image=nginx") == {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"run": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}], "restartPolicy": "Always"},
    }  # fmt: skip
    words = ("pod", "once", "--image=busybox", "--restart=Never", "--env=A=b=c", "--labels=x=y,z=", "--port=80")
    options = ("--dry-run=client", "-o", "json")
    obj = cloud.run("create", *words, *options, "--", "echo", "-n", "hi").object
    assert obj["metadata"]["labels"] == {"x": "y", "z": ""}
    assert obj["spec"]["restartPolicy"] == "Never"
    container = obj["spec"]["containers"][0]
    assert container["args"][:-2] == ["echo", "-n", "hi"]  # behind which the fixture puts --socket
    assert (container["ports"], container["env"]) == ([{"containerPort": 80}], [{"name": "A", "value": "b=c"}])
    command = cloud.run("create", *words, *options, "--command", "--", "sh").object
    assert command["spec"]["containers"][0]["command"][:-2] == ["sh"]
    assert cloud.run("create", *words).lines == ["pod/once created"]
    assert (
        'supported values: "Always", "OnFailure", "Never"'
        in cloud.run("create", "pod", "odd", "--image=x", "--restart=Sometimes").err
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("cm",), "exactly one NAME is required, got 0"),
        (("cm", "a", "b"), "exactly one NAME is required, got 2"),
        (("cm", "a", "--from-literal=hunter2"), "expected key=value"),
        (("cm", "a", "--from-literal=a=1", "--from-literal=a=2"), 'cannot add key "a"'),
        (("cm", "a", "--from-literal=a b=1"), "not a valid key"),
        (("cm", "a", "--from-file=/nope"), "error reading /nope: No such file or directory"),
        (("cm", "a", "--from-file=x=/"), "cannot give a key name for a directory"),
        (("cm", "a", "--from-env-file=/dev/zero"), "longer than 1 MiB"),
        (("secret", "a"), "create secret generic|tls|docker-registry NAME"),
        (("secret", "tls", "a"), "--cert FILE and --key FILE"),
        (("secret", "docker-registry", "a"), "--docker-username"),
        (("quota", "a"), "`create quota` is not here"),
        (("role", "a"), "at least one verb must be specified"),
        (("role", "a", "--verb=get"), "--resource is needed"),
        (("role", "a", "--verb=get", "--resource=spoons"), 'the server doesn\'t have a resource type "spoons"'),
        (("role", "a", "--verb=get", "--non-resource-url=/x"), "--resource is needed"),
        (("rolebinding", "a", "--user=b"), "exactly one of --clusterrole and --role is needed"),
        (("clusterrolebinding", "a", "--role=b"), "--clusterrole is needed"),
        (("rolebinding", "a", "--role=b", "--serviceaccount=c"), "--serviceaccount wants NAMESPACE:NAME"),
        (("deployment", "a"), "--image is needed"),
        (("deployment", "a", "--image=x", "--replicas=many"), "--replicas is a number"),
        (("cronjob", "a", "--image=x"), "--schedule is needed"),
        (("job", "a", "--from=pod/b"), "--from wants cronjob/NAME"),
        (("pod", "a"), "--image is needed"),
        (("pod", "--image=x"), "exactly one NAME is required"),
        (("pod", "a", "--image=x", "--port=http"), "--port is a number"),
        (("pod", "a", "--image=x", "--env=A"), "--env wants KEY=VALUE"),
        (("cm", "a", "-f", "x"), "with -f"),
        ((), "-f"),
    ],
)
def test_what_cannot_be_made_is_one_line(empty_cloud: Cloud, words: tuple[str, ...], why: str) -> None:
    done = empty_cloud.run("create", *words)
    assert done.status != 0
    assert why in done.err
    assert len(done.err.splitlines()) == 1


def test_an_object_is_replaced(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(config_map(sky="blue", sea="green"))
    file = write(tmp_path / "x.yaml", config(sky="grey"))
    assert cloud.run("replace", "-f", file, "--dry-run=server").lines == ["configmap/colours replaced (server dry run)"]
    assert cloud.run("replace", "-f", file).lines == ["configmap/colours replaced"]
    assert cloud.run("get", "cm", "colours", "-o", "json").object["data"] == {"sky": "grey"}
    missing = cloud.run("replace", "-f", write(tmp_path / "y.yaml", config("other")))
    assert missing.status == 1
    assert missing.err.startswith(
        f'Error from server (NotFound): error when replacing "{tmp_path}/y.yaml:1": configmaps'
    )


def test_force_recreates_an_object(cloud: Cloud, tmp_path: Path) -> None:
    cloud.make(pod("web"))
    before = cloud.run("get", "pod", "web", "-o", "jsonpath={.metadata.uid}").out
    file = write(tmp_path / "x.yaml", POD.replace("1.35", "1.36"))
    assert cloud.run("replace", "--force", "-f", file).lines == ['pod "web" deleted', "pod/web replaced"]
    after = cloud.run("get", "pod", "web", "-o", "jsonpath={.metadata.uid} {.spec.containers[0].image}").out
    assert after.split()[0] != before.strip()
    assert after.split()[1] == "busybox:1.36"
    assert cloud.run("delete", "-f", file, "--grace-period=0", "--force").status == 0
    assert cloud.run("replace", "--force", "-f", file).lines == ["pod/web replaced"]


def test_run_names_the_command_that_makes_a_pod(cloud: Cloud) -> None:
    done = cloud.run("run", "web", "--image=nginx", "--restart=Never")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "`cloudcore create pod NAME --image=IMAGE` makes a pod" in done.err


def test_roles_and_bindings_equal_kubectls(cloud: Cloud) -> None:
    """Resources get their API groups by discovery."""
    words = ("role", "reader", "--verb=get,list", "--resource=po,deployments.apps", "--resource=pods/log")
    assert made(cloud, *words)["rules"] == [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
        {"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": ["deployments"]},
    ]
    assert cloud.run("create", *words).lines == ["role.rbac.authorization.k8s.io/reader created"]
    one = ("clusterrole", "one", "--verb=get", "--resource=pods", "--resource-name=web")
    assert made(cloud, *one)["rules"][0]["resourceNames"] == ["web"]
    metrics = ("clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
    assert cloud.run("create", *metrics).lines == ["clusterrole.rbac.authorization.k8s.io/metrics created"]
    subjects = ("--user=carol", "--group=shop", "--serviceaccount=default:robot")
    bound = made(cloud, "rolebinding", "carol", "--role=reader", *subjects)
    assert bound["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    assert [(each["kind"], each["name"]) for each in bound["subjects"]] == [
        ("User", "carol"), ("Group", "shop"), ("ServiceAccount", "robot"),
    ]  # fmt: skip
    given = cloud.run("create", "clusterrolebinding", "all", "--clusterrole=view", *subjects)
    assert given.lines == ["clusterrolebinding.rbac.authorization.k8s.io/all created"]
    assert cloud.run("get", "rolebindings,clusterrolebindings", "all", "--no-headers").status == 1
    listed = cloud.run("get", "clusterrolebindings", "all", "-o", "wide")
    assert listed.rows[1][:2] == ["all", "ClusterRole/view"]
    assert listed.rows[1][-3:] == ["carol", "shop", "default/robot"]


def test_a_token_of_a_service_account_is_printed(cloud: Cloud) -> None:
    """And nothing else: `TOKEN=$(cloudcore create token robot)`."""
    assert cloud.run("create", "sa", "robot").lines == ["serviceaccount/robot created"]
    token = cloud.run("create", "token", "robot").out
    assert (token.count("."), token.count("\n")) == (2, 1)
    words = ("--duration=20m", "--audience=vault", "--audience=db", "-o", "json")
    request = cloud.run("create", "token", "robot", *words).object
    assert request["spec"] == {"audiences": ["vault", "db"], "expirationSeconds": 1200}
    cloud.make(pod("web"))
    bound = ("--bound-object-kind=Pod", "--bound-object-name=web", "-o", "json")
    request = cloud.run("create", "token", "default", *bound).object
    assert request["spec"]["boundObjectRef"] == {"kind": "Pod", "apiVersion": "v1", "name": "web"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["none"], 'serviceaccounts "none" not found'),
        ([], "exactly one NAME is required, got 0"),
        (["a", "b"], "exactly one NAME is required, got 2"),
        (["default", "--duration=1m"], "may not specify a duration less than 10 minutes"),
        (["default", "--duration=-1h"], "a whole number of seconds, above 0"),
        (["default", "--duration=1.5s"], "a whole number of seconds, above 0"),
        (["default", "--bound-object-name=web"], "--bound-object-kind is set if"),
        (["default", "--bound-object-kind=Service", "--bound-object-name=web"], "is one of Pod, Secret, Node"),
        (["default", "--bound-object-kind=Pod"], "--bound-object-name is set with it"),
        (["default", "--dry-run=client"], "there is no dry run of it"),
    ],
)
def test_a_token_that_is_refused(cloud: Cloud, words: list[str], why: str) -> None:
    done = cloud.run("create", "token", *words)
    assert (done.status != 0, done.out) == (True, "")
    assert why in done.err
