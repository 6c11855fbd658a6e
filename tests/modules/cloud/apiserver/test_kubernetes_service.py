"""The Service that leads pods to the API server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from beehive.simulation.scheduler import VirtualClock
from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.api_messages import MODULE, RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.kubernetes_service import KubernetesService, keep_kubernetes_service, kubernetes_service
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.reconcilers import PERIOD, ControlPlane
from modules.cloud.apiserver.service_addresses import service_ranges
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database import IN_MEMORY
from modules.processes.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.processes.cloudcore.process import CloudCore
from tests.modules.cloud.objects import in_memory

KEYS = [ObjectKey(kind, "default", "kubernetes") for kind in ("Service", "Endpoints", "EndpointSlice")]
CLOUD = KubernetesService("10.96.0.1", "IPv4", ("192.0.2.10", "192.0.2.11"), 6443)
V6 = "fd00::/112"


@pytest.mark.parametrize(
    ("names", "ranges", "addresses", "cluster_ip"),
    [
        (["127.0.0.1", "localhost"], "10.96.0.0/16", None, ""),
        (["cloud.example"], "10.96.0.0/16", None, ""),
        (["0.0.0.0", "169.254.1.1", "224.0.0.1"], "10.96.0.0/16", None, ""),  # noqa: S104 - no bind
        (["2001:db8::1"], "10.96.0.0/16", None, ""),
        (["192.0.2.10", "cloud.example", "127.0.0.1"], "10.96.0.0/16", ("192.0.2.10",), "10.96.0.1"),
        (["192.0.2.10", "192.0.2.11", "192.0.2.10"], f"10.0.0.0/24,{V6}", ("192.0.2.10", "192.0.2.11"), "10.0.0.1"),
        (["192.0.2.10", "2001:db8::1"], f"{V6},10.96.0.0/16", ("2001:db8::1",), "fd00::1"),
    ],
)
def test_the_addresses_are_reachable_by_others(
    names: Sequence[str], ranges: str, addresses: tuple[str, ...] | None, cluster_ip: str
) -> None:
    """Of the family of the first range, whose first address is the Service's."""
    found = kubernetes_service(names, 6443, service_ranges(ranges))
    assert (found.addresses if found else None) == addresses
    assert found is None or (found.cluster_ip, found.port) == (cluster_ip, 6443)


def _cluster(service: KubernetesService | None = CLOUD) -> Cluster:
    cluster = Cluster(VirtualClock(0))
    keep_kubernetes_service(cluster, service, repairs=True)
    return cluster


def test_the_objects_are_kube_apiservers() -> None:
    cluster = _cluster()
    service, endpoints, endpoint_slice = (cluster.storage.get(key) for key in KEYS)
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    spec = service["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"], spec["type"]) == ("10.96.0.1", ["10.96.0.1"], "ClusterIP")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], spec["sessionAffinity"]) == (["IPv4"], "SingleStack", "None")
    assert spec["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
    port = {"name": "https", "port": 6443, "protocol": "TCP"}
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert endpoints["subsets"] == [{"addresses": [{"ip": "192.0.2.10"}, {"ip": "192.0.2.11"}], "ports": [port]}]
    assert endpoint_slice["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert (endpoint_slice["addressType"], endpoint_slice["ports"]) == ("IPv4", [port])
    assert [each["addresses"] for each in endpoint_slice["endpoints"]] == [["192.0.2.10"], ["192.0.2.11"]]


def test_a_start_repairs_and_later_only_missing_objects_are_made() -> None:
    """So cloudcores that name different addresses do not write against each other for ever."""
    cluster, other = _cluster(), CLOUD._replace(addresses=("192.0.2.12",), port=7443)
    version = cluster.storage.version
    keep_kubernetes_service(cluster, CLOUD, repairs=True)
    keep_kubernetes_service(cluster, other, repairs=False)
    assert cluster.storage.version == version
    keep_kubernetes_service(cluster, other, repairs=True)
    service, endpoints, endpoint_slice = (cluster.storage.get(key) for key in KEYS)
    assert (service["spec"]["clusterIP"], service["spec"]["ports"][0]["targetPort"]) == ("10.96.0.1", 7443)
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "192.0.2.12"}]
    assert (endpoint_slice["endpoints"][0]["addresses"], endpoint_slice["ports"][0]["port"]) == (["192.0.2.12"], 7443)


def test_a_start_without_the_port_deletes_it() -> None:
    """A Service of this name that somebody else has made stays."""
    cluster = _cluster()
    keep_kubernetes_service(cluster, None, repairs=True)
    assert [cluster.storage.find(key) for key in KEYS] == [None] * 3
    metadata = {"name": "kubernetes", "namespace": "default"}
    cluster.create({"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": {"ports": [{"port": 443}]}})
    keep_kubernetes_service(cluster, None, repairs=True)
    assert cluster.storage.find(KEYS[0]) is not None


def _started(bee: Harness) -> Cluster:
    """The objects of the module apiserver, which runs; one of them has been there before."""
    cluster, api = Cluster(bee.clock), EmbeddedKubeApi(bee.hive, bee.clock)
    parts = cluster, in_memory(), None, Refusals(bee.clock), api.subscriptions
    bee.add(ApiServer, *parts, control_plane=ControlPlane(service=CLOUD))
    return cluster


def test_a_deleted_one_is_recreated_immediately() -> None:
    """With the same address."""
    with Harness() as bee:
        cluster = _started(bee)
        bee.start()
        place: dict[str, Any] = {"verb": "delete", "name": "kubernetes", "namespace": "default"}
        for plural, api_version in (("services", "v1"), ("endpointslices", "discovery.k8s.io/v1"), ("endpoints", "v1")):
            call = ApiCall(plural=plural, api_version=api_version, **place)
            assert bee.ask(MODULE, bee.message(RESOURCE, Verb.CALL, call, source=SOURCE)).content_as(ApiResult).object
            bee.settle()
            assert all(cluster.storage.find(key) is not None for key in KEYS)
        assert cluster.storage.get(KEYS[0])["spec"]["clusterIP"] == "10.96.0.1"


def test_its_address_may_be_taken(caplog: pytest.LogCaptureFixture) -> None:
    """By a Service that an earlier version has stored. The API server runs, and says so, once; when that one is gone,
    it takes the address.
    """
    with Harness() as bee:
        cluster = _started(bee)
        metadata = {"name": "web", "namespace": "default"}
        spec = {"ports": [{"port": 80}], "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"]}
        cluster.storage.create({"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec})
        bee.start()
        bee.run_for(3 * PERIOD)
        assert [cluster.storage.find(key) for key in KEYS] == [None] * 3
        assert caplog.text.count("pods do not reach the API server by the Service kubernetes") == 1
        assert "provided IP is already allocated" in caplog.text
        call = ApiCall(verb="delete", plural="services", api_version="v1", name="web", namespace="default")
        bee.ask(MODULE, bee.message(RESOURCE, Verb.CALL, call, source=SOURCE))
        bee.run_for(PERIOD)
        assert all(cluster.storage.find(key) is not None for key in KEYS)


def test_the_certificate_has_its_names(tmp_path: Path) -> None:
    """And is the former one's, where there is no such Service."""
    for bind, has_them in (("0.0.0.0", True), ("127.0.0.1", False)):  # noqa: S104 - it is not started
        tls = TlsConfig(directory=tmp_path / "tls", names=("192.0.2.10", "cloud.example"))
        socket = tmp_path / "control"
        config = CloudCoreConfig(
            control_socket=socket, database=IN_MEMORY, tls=tls, secure_port=6443, bind_address=bind
        )
        CloudCore(config).stop()
        certificate = x509.load_pem_x509_certificate(AuthorityFiles(tmp_path / "tls").server.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
        within = {"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
        assert hosts == {"192.0.2.10", "cloud.example", *({*within, "10.96.0.1"} if has_them else ())}
