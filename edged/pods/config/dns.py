"""The resolv.conf of a pod (kubelet's DNS configurer)."""

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
