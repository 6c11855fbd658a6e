"""Keys of KubeEdge's file that edgecore accepts without effect, with KubeEdge's defaults.

A KubeEdge user's file must be accepted as a whole, and unknown keys must be reported, so the known ones are listed
here. The defaults distinguish a file that repeats KubeEdge's printed values, which needs no remark, from one with
chosen values, which have no effect here (`config check` reports them, `run` counts them).

A key moves from here into a struct when the part that uses it is built. Source: the fields of KubeEdge's
`componentconfig/edgecore/v1alpha2` types and the output of `edgecore --defaultconfig`, August 2026.
"""

from typing import Final

import msgspec


class Accepted(msgspec.Struct, frozen=True):
    """A key without effect. If it has no default, any value but null, false, 0 and an empty one was chosen by
    the user.
    """

    default: object = None


class AcceptedAny(msgspec.Struct, frozen=True):
    """A key without effect where KubeEdge writes an address or name of the machine, so that its value tells
    nothing.
    """


Known = dict[str, "Accepted | AcceptedAny | Known"]


def _accepted(*names: str, **defaults: object) -> Known:
    known: Known = {name: Accepted() for name in names}
    return known | {name: Accepted(default) for name, default in defaults.items()}


_TUNNEL: Final = _accepted(
    enable=False,
    handshakeTimeout=30,
    readDeadline=15,
    writeDeadline=15,
    tlsTunnelCAFile="/etc/kubeedge/ca/rootCA.crt",
    tlsTunnelCertFile="/etc/kubeedge/certs/server.crt",
    tlsTunnelPrivateKeyFile="/etc/kubeedge/certs/server.key",
) | {"server": AcceptedAny()}

_LOGGING: Final = _accepted("vmodule", flushFrequency="5s", format="text", verbosity=0) | {
    "options": {
        "json": _accepted("splitStream", infoBufferSize="0"),
        "text": _accepted("splitStream", infoBufferSize="0"),
    }
}

_KUBELET_RESOURCES: Final = _accepted(
    "kubeletCgroups",
    "systemCgroups",
    "cpuManagerPolicyOptions",
    "topologyManagerPolicyOptions",
    "qosReserved",
    "podsPerCore",
    "reservedSystemCPUs",
    "reservedMemory",
    cpuManagerPolicy="none",
    cpuManagerReconcilePeriod="10s",
    memoryManagerPolicy="None",
    memoryThrottlingFactor=0.9,
    topologyManagerPolicy="none",
    topologyManagerScope="container",
    localStorageCapacityIsolation=True,
    failSwapOn=False,
    failCgroupV1=False,
    oomScoreAdj=-999,
    maxOpenFiles=1_000_000,
) | {"memorySwap": _accepted("swapBehavior")}

_KUBELET_EVICTION: Final = _accepted(
    "kernelMemcgNotification",
)

_KUBELET_IMAGES_AND_LOGS: Final = _accepted(
    "imagePullCredentialsVerificationPolicy",
    "preloadedImagesVerificationAllowlist",
    containerLogMaxWorkers=1,
)

_KUBELET_SERVER: Final = _accepted(
    "enableContentionProfiling",
    "enableSystemLogQuery",
    "showHiddenMetricsForVersion",
    "tracing",
    contentType="application/json",
    enableDebugFlagsHandler=True,
    enableProfilingHandler=True,
    enableSystemLogHandler=True,
)

_KUBELET_REST: Final = _accepted(
    "featureGates",
    "protectKernelDefaults",
    "userNamespaces",
    configMapAndSecretChangeDetectionStrategy="Get",
    enableControllerAttachDetach=True,
    fileCheckFrequency="20s",
    hairpinMode="promiscuous-bridge",
    iptablesDropBit=15,
    iptablesMasqueradeBit=14,
    makeIPTablesUtilChains=True,
    volumePluginDir="/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    volumeStatsAggPeriod="1m0s",
) | {"logging": _LOGGING}

_EDGED: Final = _accepted(
    "bandwidthManager",
    "customInterfaceName",
    "experimentalMounterPath",
    "experimentalNodeAllocatableIgnoreEvictionThreshold",
    "keepTerminatedPodVolumes",
    "runtimeCgroups",
    "seccompDefault",
    "windowsPriorityClass",
    "windowsService",
    podSandboxImage="kubeedge/pause:3.6",
    registerNodeNamespace="default",
) | {
    "tailoredKubeletConfig": _KUBELET_RESOURCES
    | _KUBELET_EVICTION
    | _KUBELET_IMAGES_AND_LOGS
    | _KUBELET_SERVER
    | _KUBELET_REST
}

_EDGE_HUB: Final[Known] = {
    "quic": _accepted(handshakeTimeout=30, readDeadline=15, writeDeadline=15) | {"server": AcceptedAny()}
}

_EVENT_BUS: Final = _accepted("mqttPubClientID")

_META_MANAGER: Final = _accepted(contextSendGroup="hub", contextSendModule="websocket") | {
    "metaServer": _accepted(
        "apiAudiences",
        "serviceAccountKeyFiles",
        dummyServer="169.254.30.10:10550",
        serviceAccountIssuers=["https://kubernetes.default.svc.cluster.local"],
        tlsCaFile="/etc/kubeedge/ca/rootCA.crt",
        tlsCertFile="/etc/kubeedge/certs/server.crt",
        tlsPrivateKeyFile="/etc/kubeedge/certs/server.key",
    )
}

KNOWN: Final[Known] = _accepted("edgecoreVersion", "featureGates") | {
    "database": _accepted(aliasName="default"),
    "modules": {
        "edgeHub": _EDGE_HUB,
        "edged": _EDGED,
        "eventBus": _EVENT_BUS,
        "metaManager": _META_MANAGER,
        "streamRuleEndpoint": _TUNNEL,
    },
}
"""Tree of the keys without effect, beside the structs: a section of the file may have keys in both."""


def is_chosen(accepted: Accepted | AcceptedAny, value: object) -> bool:
    """Return whether the user chose this value: it is neither KubeEdge's default nor empty."""
    if isinstance(accepted, AcceptedAny) or value is None:
        return False
    if accepted.default is None:
        return value not in (False, 0, "", [], {})
    return value != accepted.default
