"""The resolv.conf of a pod (kubelet's DNS configurer)."""

import ipaddress
from collections.abc import Iterable

from msgspec import Struct

from modules.apimachinery.types import Pod
from protos.cri.v1 import api_pb2 as cri

_MOST_SERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_LONGEST_SEARCH = 253
"""Characters of a search domain (DNS1123SubdomainMaxLength). Some C libraries' resolvers abort at a longer one."""


class ResolvConf(Struct, frozen=True, gc=False):
    """The three kinds of lines of a resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class ClusterDns(Struct, frozen=True, gc=False):
    """The cluster's name servers and domain, from the configuration; both empty without a cluster DNS."""

    servers: tuple[str, ...] = ()
    domain: str = ""


def parse_resolv_conf(text: str) -> ResolvConf:
    """Parse a resolv.conf. Of several `search` lines the last counts, and of several values of an option; comments and
    unknown lines do not. The root domain, which systemd-resolved writes for "no search", is no search domain.
    """
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.strip().split()
        if not words or words[0].startswith(("#", ";")):
            continue
        match words[0]:
            case "nameserver" if len(words) > 1:
                servers.append(words[1])
            case "search" | "domain":
                searches = tuple(word.removesuffix(".") for word in words[1:] if word != ".")
            case "options":
                options.update((word.partition(":")[0], word) for word in words[1:])
            case _:
                pass
    return ResolvConf(tuple(servers), searches, tuple(options.values()))


def is_the_machines(server: str) -> bool:
    """Return whether only the machine's own network reaches a name server: one of a loopback address, such as the stub
    of systemd-resolved (127.0.0.53) or a dnsmasq, or of an address that is valid on one of its links.
    """
    try:
        address = ipaddress.ip_address(server)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_loopback or address.is_unspecified
    mapped = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified or address.is_link_local or bool(mapped and mapped.is_loopback)


def for_own_networks(host: ResolvConf, uplinks: Iterable[ResolvConf]) -> ResolvConf:
    """Return the host's resolv.conf as pods with a network of their own can use it.

    Without servers that they reach, the first uplink's that has some is taken, as kubeadm and k3s take the list of
    systemd-resolved. Else there is no server.

    Args:
        host: its resolv.conf.
        uplinks: of the servers behind the host's own.
    """
    servers = _reached(host)
    if servers or not host.servers:
        return ResolvConf(servers, host.searches, host.options)
    for each in uplinks:
        if found := _reached(each):
            return ResolvConf(found, each.searches or host.searches, each.options)
    return ResolvConf((), host.searches, host.options)


def _reached(conf: ResolvConf) -> tuple[str, ...]:
    return tuple(server for server in conf.servers if not is_the_machines(server))


def pod_dns(pod: Pod, host: ResolvConf, cluster: ClusterDns) -> ResolvConf:
    """Return the pod's resolv.conf: its DNS policy's and its dnsConfig's lines, within the resolver's limits.

    Without cluster name servers, ClusterFirst falls back to the host's, as in a kubelet. A pod on the host's network
    uses the host's unless its policy is ClusterFirstWithHostNet.
    """
    base = _by_policy(pod, host, cluster)
    extra = pod.spec.dns_config
    if extra is not None:
        given = {option.name: option.value for option in extra.options}
        kept = [option for option in base.options if option.partition(":")[0] not in given]
        added = [name if value is None else f"{name}:{value}" for name, value in given.items()]
        base = ResolvConf(
            _unique(base.servers + extra.nameservers), _unique(base.searches + extra.searches), (*kept, *added)
        )
    return ResolvConf(base.servers[:_MOST_SERVERS], _within_limits(base.searches), base.options)


def dns_config(conf: ResolvConf) -> cri.DNSConfig:
    """Convert a resolv.conf to the CRI's form."""
    return cri.DNSConfig(servers=conf.servers, searches=conf.searches, options=conf.options)


def _by_policy(pod: Pod, host: ResolvConf, cluster: ClusterDns) -> ResolvConf:
    policy = pod.spec.dns_policy or "ClusterFirst"
    if policy == "None":
        return ResolvConf()
    by_cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)
    if not by_cluster or not cluster.servers:
        return host
    namespace, domain = pod.metadata.namespace, cluster.domain
    searches = (f"{namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()
    return ResolvConf(cluster.servers, _unique(searches + host.searches), ("ndots:5",))


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _within_limits(searches: tuple[str, ...]) -> tuple[str, ...]:
    kept: tuple[str, ...] = ()
    for search in searches[:_MOST_SEARCHES]:
        if len(search) > _LONGEST_SEARCH:
            continue
        if len(" ".join((*kept, search))) > _LONGEST_SEARCHES:
            break
        kept = (*kept, search)
    return kept
