"""The documents of deploy/ have the form of their kinds, and agree with each other and with cloudcore."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from modules.apimachinery.kinds import KINDS
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.devicecontroller.definitions import definitions
from modules.lab.site.commands import parser_of
from tests.modules.processes.cloudcore.deployment import DEPLOY, ONE, REPLICAS, device_definitions, manifests, of_kind
from tests.modules.processes.cloudcore.stubs import CLOCK, Stub
from tests.packaging.changes import released
from tests.support.control_client import Apply
from tests.support.patience import PATIENCE

_OF_LIST: Final = re.compile(r"list\[(.*)\]")
_OF_MAP: Final = re.compile(r"dict\(str, (.*)\)")
_PLAIN: Final[dict[str, tuple[type, ...]]] = {"str": (str,), "int": (int,), "bool": (bool,), "object": (str, int, dict)}


def faults(models: Any, model_name: str, value: Any, where: str) -> list[str]:
    """What of a value is not as Kubernetes' OpenAPI has it (the models of the PyPI package `kubernetes`)."""
    if model_name in _PLAIN:
        return [] if isinstance(value, _PLAIN[model_name]) else [f"{where}: {value!r} is no {model_name}"]
    if of_list := _OF_LIST.fullmatch(model_name):
        items = enumerate(value) if isinstance(value, list) else ()
        found = [fault for at, one in items for fault in faults(models, of_list[1], one, f"{where}[{at}]")]
        return found if isinstance(value, list) else [f"{where}: no list"]
    if not isinstance(value, dict):
        return [f"{where}: no object"]
    if of_map := _OF_MAP.fullmatch(model_name):
        return [fault for key, one in value.items() for fault in faults(models, of_map[1], one, f"{where}.{key}")]
    model = getattr(models, model_name)
    types = {model.attribute_map[field]: kind for field, kind in model.openapi_types.items()}
    found = [f"{where}.{key}: unknown" for key in value if key not in types]
    for key in value.keys() & types.keys():
        found += faults(models, types[key], value[key], f"{where}.{key}")
    return found


@pytest.fixture(params=[ONE, REPLICAS])
def file(request: pytest.FixtureRequest) -> str:
    """A file that installs cloudcore."""
    return str(request.param)


def template(file: str) -> dict[str, Any]:
    """The pod of the Deployment."""
    (deployment,) = of_kind("Deployment", file)
    pod: dict[str, Any] = deployment["spec"]["template"]
    return pod


def container(file: str) -> dict[str, Any]:
    """Its container."""
    (only,) = template(file)["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def test_each_document_has_the_fields_of_its_kind(file: str) -> None:
    models = pytest.importorskip("kubernetes.client.models")
    for document in manifests(file):
        assert faults(models, f"V1{document['kind']}", document, document["kind"]) == []


def test_the_kinds_of_devices_equal_the_embedded_api_servers() -> None:
    """With the form of their kind."""
    assert device_definitions() == definitions()
    models = pytest.importorskip("kubernetes.client.models")
    for each in device_definitions():
        assert faults(models, "V1CustomResourceDefinition", each, each["metadata"]["name"]) == []


def test_a_wrong_document_has_faults() -> None:
    models = pytest.importorskip("kubernetes.client.models")
    port = {"port": "80", "protocl": "TCP"}
    service = {"kind": "Service", "spec": {"ports": [port], "selector": ["x"]}}
    found = faults(models, "V1Service", service, "Service")
    assert sorted(found) == [
        "Service.spec.ports[0].port: '80' is no int",
        "Service.spec.ports[0].protocl: unknown",
        "Service.spec.selector: no object",
    ]


def test_the_arguments_equal_cloudcore_runs(file: str) -> None:
    chosen = parser_of("cloudcore").parse_args(container(file)["args"])
    assert chosen.in_cluster
    assert chosen.tls
    assert str(chosen.root) == container(file)["volumeMounts"][0]["mountPath"]


def test_the_ports_come_from_the_arguments(file: str) -> None:
    """cloudcore listens on the ports that the container names, and the Service leads to them."""
    chosen = parser_of("cloudcore").parse_args(container(file)["args"])
    addresses = (chosen.listen, chosen.https_listen, chosen.metrics_bind_address)
    ports = {one["name"]: one["containerPort"] for one in container(file)["ports"]}
    assert [int(address.rpartition(":")[2]) for address in addresses] == list(ports.values())
    (service,) = of_kind("Service", file)
    assert {one["targetPort"]: one["port"] for one in service["spec"]["ports"]} == {
        "websocket": 10000,
        "certificates": 10002,
    }
    assert service["spec"]["selector"].items() <= template(file)["metadata"]["labels"].items()


def test_the_probes_ask_for_the_paths_of_health_checks(file: str) -> None:
    probes = {name: container(file)[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/livez", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }


def test_the_roles_are_bound_to_the_account_of_the_pod(file: str) -> None:
    """Every role, and to nobody else."""
    account = {"kind": "ServiceAccount", "name": template(file)["spec"]["serviceAccountName"], "namespace": "kubeedge"}
    bindings = of_kind("ClusterRoleBinding", file)
    assert [one["subjects"] for one in bindings] == [[account]] * len(bindings)
    bound = [(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings]
    assert bound == [("ClusterRole", role["metadata"]["name"]) for role in of_kind("ClusterRole", file)]


def test_the_pod_has_no_privileges(file: str) -> None:
    """As the Pod Security Standard "restricted" demands, and a root file system that nobody writes."""
    context, of_pod = container(file)["securityContext"], template(file)["spec"]["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert of_pod["runAsNonRoot"]
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_image_has_the_version_of_the_last_release(file: str) -> None:
    """The manifests and the Dockerfile name it."""
    assert container(file)["image"] == f"cloudcore:{released()[0]}"
    assert f"--tag cloudcore:{released()[0]} " in (DEPLOY / "Dockerfile").read_text()


def test_the_replicas_have_all_that_one_has_and_no_volume_of_one() -> None:
    """Roles, account, definition and Service are the same: what one of the files lacks is the state of a replica."""

    def others(file: str) -> list[dict[str, Any]]:
        own = ("Deployment", "PersistentVolumeClaim", "PodDisruptionBudget")
        return [one for one in manifests(file) if one["kind"] not in own]

    assert others(REPLICAS) == others(ONE)
    assert of_kind("PersistentVolumeClaim", REPLICAS) == []


def test_the_replicas_share_the_authority_and_keep_nothing() -> None:
    chosen = parser_of("cloudcore").parse_args(container(REPLICAS)["args"])
    volumes = {one["name"]: one for one in template(REPLICAS)["spec"]["volumes"]}
    mounts = {one["mountPath"]: one for one in container(REPLICAS)["volumeMounts"]}
    tls = mounts[str(chosen.tls_dir)]
    assert chosen.state == "cluster"
    assert tls["readOnly"]
    assert "secret" in volumes[tls["name"]]
    assert volumes[mounts[str(chosen.root)]["name"]]["emptyDir"] == {}


def test_replicas_are_replaced_and_evicted_one_at_a_time_and_are_on_several_machines() -> None:
    (deployment,) = of_kind("Deployment", REPLICAS)
    (budget,) = of_kind("PodDisruptionBudget", REPLICAS)
    labels = template(REPLICAS)["metadata"]["labels"]
    (spread,) = template(REPLICAS)["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert deployment["spec"]["replicas"] >= 3
    assert deployment["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert spread["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels
    assert spread["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


def test_files_for_the_embedded_api_servers_kinds_can_be_applied(file: str, tmp_path: Path) -> None:
    """It refuses unknown fields. Roles and Deployments are no kinds of its own."""
    kinds = {kind.name for kind in KINDS}
    known = [one for one in manifests(file) if one["kind"] in kinds]
    assert {one["kind"] for one in known} >= {"Namespace", "ServiceAccount", "CustomResourceDefinition", "Service"}
    with Stub(tmp_path) as stub:
        results = stub.client.run(Apply(known))
    assert [item.error for item in results] == [""] * len(known)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_kustomize_base_is_the_installation(tmp_path: Path) -> None:
    """An overlay names the image by its digest."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "overlay").mkdir()
    digest = f"sha256:{'0' * 64}"
    image = {"name": "cloudcore", "newName": "registry.example/cloudcore", "digest": digest}
    (tmp_path / "overlay/kustomization.yaml").write_text(json.dumps({"resources": ["../deploy"], "images": [image]}))
    for directory, name in (("deploy", container(ONE)["image"]), ("overlay", f"registry.example/cloudcore@{digest}")):
        done = subprocess.run(
            ["kubectl", "kustomize", tmp_path / directory], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        rendered = [each for each in yaml.safe_load_all(done.stdout) if each]
        wanted = manifests(ONE)
        for each in wanted:
            if each["kind"] == "Deployment":
                each["spec"]["template"]["spec"]["containers"][0]["image"] = name
        keys = [(each["kind"], each["metadata"]["name"]) for each in wanted]
        assert sorted(keys) == sorted((each["kind"], each["metadata"]["name"]) for each in rendered)
        assert all(each in rendered for each in wanted)


def test_the_image_has_packages_by_their_hashes_only() -> None:
    """Of all commands of pip, one installs what constraints-cloud.txt pins, the other one edgecore itself."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    installs = [part for part in text.replace("RUN", "&&").split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert "--require-hashes --requirement /release/constraints-cloud.txt" in installs[0]
    assert "--no-index --no-deps /release/edgecore-*.whl" in installs[1]
    pinned = (DEPLOY.parent / "constraints-cloud.txt").read_text().replace("\\\n", " ").splitlines()
    packages = [line for line in pinned if line.strip() and not line.lstrip().startswith("#")]
    assert packages
    assert all("==" in line and "--hash=sha256:" in line for line in packages)


def test_a_read_only_directory_of_the_authority_is_enough(tmp_path: Path) -> None:
    """As a Secret is mounted: nothing is written to it when the names are the same."""
    files = AuthorityFiles(tmp_path)
    names = ("127.0.0.1", "localhost", "cloud.example")
    made = open_authority(files, names, CLOCK.now())
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()}
    again = open_authority(files, names, CLOCK.now())
    assert again.pem == made.pem
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()} == before
