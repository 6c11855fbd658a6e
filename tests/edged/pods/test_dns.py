"""A pod's resolv.conf follows its DNS policy."""

from typing import Any

import pytest

from edged.pods.config.dns import ClusterDns, ResolvConf, parse_resolv_conf, pod_dns
from modules.apimachinery.types import PodDNSConfig, PodDNSConfigOption
from tests.edged.pods.builders import a_pod

HOST = ResolvConf(("192.0.2.53",), ("lan",), ("edns0",))
CLUSTER = ClusterDns(("10.96.0.10",), "cluster.local")
IN_CLUSTER = ResolvConf(
    ("10.96.0.10",), ("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"), ("ndots:5",)
)


@pytest.mark.parametrize(
    ("spec", "cluster", "expected"),
    [
        ({"dns_policy": "ClusterFirst"}, CLUSTER, IN_CLUSTER),
        ({}, CLUSTER, IN_CLUSTER),
        ({"dns_policy": "ClusterFirst"}, ClusterDns(), HOST),
        ({"dns_policy": "Default"}, CLUSTER, HOST),
        ({"dns_policy": "ClusterFirst", "host_network": True}, CLUSTER, HOST),
        ({"dns_policy": "ClusterFirstWithHostNet", "host_network": True}, CLUSTER, IN_CLUSTER),
        ({"dns_policy": "None"}, CLUSTER, ResolvConf()),
    ],
)
def test_policy_chooses_the_servers(spec: dict[str, Any], cluster: ClusterDns, expected: ResolvConf) -> None:
    """Cluster servers come first where the policy says so and there are any, else the host's are used."""
    assert pod_dns(a_pod(**spec), HOST, cluster) == expected


def test_dns_config_is_added() -> None:
    """Servers and searches are appended without doubles, options replaced by name, servers cut to three."""
    extra = PodDNSConfig(
        nameservers=("192.0.2.53", "1.1.1.1", "8.8.8.8", "9.9.9.9"),
        searches=("lan", "example.org"),
        options=(PodDNSConfigOption(name="ndots", value="2"), PodDNSConfigOption(name="rotate")),
    )
    result = pod_dns(
        a_pod(dns_policy="Default", dns_config=extra),
        ResolvConf(("192.0.2.53",), ("lan",), ("ndots:1", "edns0")),
        CLUSTER,
    )
    assert result == ResolvConf(
        ("192.0.2.53", "1.1.1.1", "8.8.8.8"), ("lan", "example.org"), ("edns0", "ndots:2", "rotate")
    )


def test_searches_end_at_the_resolvers_limits() -> None:
    """No more than 32 domains and 2048 characters."""
    many = PodDNSConfig(searches=tuple(f"d{number}.example.org" for number in range(40)))
    assert len(pod_dns(a_pod(dns_policy="None", dns_config=many), HOST, CLUSTER).searches) == 32
    long = PodDNSConfig(searches=tuple(f"{'x' * 200}{number}" for number in range(20)))
    assert len(" ".join(pod_dns(a_pod(dns_policy="None", dns_config=long), HOST, CLUSTER).searches)) <= 2048


@pytest.mark.parametrize(("more", "kept"), [(0, 9), (1, 8)])
def test_searches_of_2048_characters_are_kept(more: int, kept: int) -> None:
    """With the spaces between them (Kubernetes' MaxDNSSearchListChars); what is longer loses the last."""
    searches = (*("abcdefgh"[each] * 250 for each in range(8)), "z" * (40 + more))
    made = pod_dns(a_pod(dns_policy="None", dns_config=PodDNSConfig(searches=searches)), HOST, CLUSTER)
    assert made.searches == searches[:kept]


def test_a_search_that_no_resolver_takes_is_left_out() -> None:
    """Of more than 253 characters; those around it stay."""
    searches = ("a.example", "b" * 254, "c" * 253)
    made = pod_dns(a_pod(dns_policy="None", dns_config=PodDNSConfig(searches=searches)), HOST, CLUSTER)
    assert made.searches == ("a.example", "c" * 253)


def test_resolv_conf_is_read() -> None:
    """Comments and unknown lines do not count, the last search line does, a final dot goes."""
    text = "# c\n; d\nnameserver 1.1.1.1\nnameserver\nsearch a.\nsearch b. c\noptions ndots:2 rotate\nsortlist x\n"
    assert parse_resolv_conf(text) == ResolvConf(("1.1.1.1",), ("b", "c"), ("ndots:2", "rotate"))


@pytest.mark.parametrize(("line", "kept"), [("search .", ()), ("search lan .", ("lan",)), ("search . lan.", ("lan",))])
def test_the_root_domain_is_no_search(line: str, kept: tuple[str, ...]) -> None:
    """systemd-resolved writes it where a machine searches nothing."""
    assert parse_resolv_conf(line).searches == kept


def test_all_lines_of_options_count() -> None:
    """Of an option that is there twice, the last value."""
    lines = "options ndots:1 timeout:3 timeout:1\noptions rotate ndots:5\n"
    assert parse_resolv_conf(lines).options == ("ndots:5", "timeout:1", "rotate")
