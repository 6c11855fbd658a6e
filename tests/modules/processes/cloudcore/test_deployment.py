"""The documents of deploy/cloudcore.yaml have the form of their kinds, and agree with each other and with cloudcore."""

import re
from typing import Any, Final

import pytest

from modules.cloud.devicecontroller.definitions import definitions
from modules.processes.edgecore.version import VERSION
from modules.tools.site.commands import parser_of
from tests.modules.processes.cloudcore.deployment import DEPLOY, device_definitions, manifests, of_kind

_OF_LIST: Final = re.compile(r"list\[(.*)\]")
_OF_MAP: Final = re.compile(r"dict\(str, (.*)\)")
_PLAIN: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "object": (str, int, dict),
}


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


def template() -> dict[str, Any]:
    """The pod of the Deployment."""
    (deployment,) = of_kind("Deployment")
    pod: dict[str, Any] = deployment["spec"]["template"]
    return pod


def container() -> dict[str, Any]:
    """Its container."""
    (only,) = template()["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("document", manifests(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_a_document_has_the_fields_of_its_kind(document: dict[str, Any]) -> None:
    models = pytest.importorskip("kubernetes.client.models")
    assert faults(models, f"V1{document['kind']}", document, document["kind"]) == []


def test_the_kinds_of_devices_are_those_of_the_embedded_api_server() -> None:
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


def test_the_arguments_are_those_of_cloudcore_run() -> None:
    chosen = parser_of("cloudcore").parse_args(container()["args"])
    assert chosen.in_cluster
    assert chosen.tls
    assert str(chosen.root) == container()["volumeMounts"][0]["mountPath"]


def test_the_ports_are_those_of_the_arguments() -> None:
    """cloudcore listens on the ports that the container names, and the Service leads to them."""
    chosen = parser_of("cloudcore").parse_args(container()["args"])
    addresses = (chosen.listen, chosen.https_listen, chosen.metrics_bind_address)
    ports = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert [int(address.rpartition(":")[2]) for address in addresses] == list(ports.values())
    (service,) = of_kind("Service")
    assert {one["targetPort"]: one["port"] for one in service["spec"]["ports"]} == {
        "websocket": 10000,
        "certificates": 10002,
    }
    assert service["spec"]["selector"].items() <= template()["metadata"]["labels"].items()


def test_the_probes_ask_for_the_paths_of_health_checks() -> None:
    probes = {name: container()[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {
        "livenessProbe": {"path": "/livez", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }


def test_the_roles_are_bound_to_the_account_of_the_pod() -> None:
    """Every role, and to nobody else."""
    account = {"kind": "ServiceAccount", "name": template()["spec"]["serviceAccountName"], "namespace": "kubeedge"}
    bindings = of_kind("ClusterRoleBinding")
    assert [one["subjects"] for one in bindings] == [[account]] * len(bindings)
    bound = [(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings]
    assert bound == [("ClusterRole", role["metadata"]["name"]) for role in of_kind("ClusterRole")]


def test_the_pod_has_no_privileges() -> None:
    """As the Pod Security Standard "restricted" demands, and a root file system that nobody writes."""
    context, of_pod = container()["securityContext"], template()["spec"]["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert of_pod["runAsNonRoot"]
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_image_has_the_version() -> None:
    """`setup.cfg` reads the version of edgecore; the manifests and the Dockerfile name it."""
    assert container()["image"] == f"cloudcore:{VERSION}"
    assert f"--tag cloudcore:{VERSION} " in (DEPLOY / "Dockerfile").read_text()
