"""Why an event was recorded: a kubelet's words (pkg/kubelet/events), which people's tools look for."""

from enum import StrEnum


class Reason(StrEnum):
    """The REASON column of `kubectl get events`."""

    CREATED = "Created"
    STARTED = "Started"
    FAILED = "Failed"
    """A container could not be created or started, or its image could not be had: the message says which."""
    KILLING = "Killing"
    BACK_OFF = "BackOff"
    """A container's start, or the pull of its image, waits because it has failed before."""
    PREEMPTING = "Preempting"
    EXCEEDED_GRACE_PERIOD = "ExceededGracePeriod"
    FAILED_KILL_POD = "FailedKillPod"
    FAILED_CREATE_POD_CONTAINER = "FailedCreatePodContainer"
    NETWORK_NOT_READY = "NetworkNotReady"

    PULLING = "Pulling"
    PULLED = "Pulled"
    INSPECT_FAILED = "InspectFailed"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"

    FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox"
    FAILED_POD_SANDBOX_STATUS = "FailedPodSandBoxStatus"
    SANDBOX_CHANGED = "SandboxChanged"

    UNHEALTHY = "Unhealthy"
    PROBE_WARNING = "ProbeWarning"
    FAILED_SYNC = "FailedSync"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    FAILED_PRE_STOP_HOOK = "FailedPreStopHook"

    FAILED_MOUNT = "FailedMount"
    FAILED_UNMOUNT = "FailedUnMount"
    FAILED_ATTACH_VOLUME = "FailedAttachVolume"
    FAILED_MAP_VOLUME = "FailedMapVolume"
    VOLUME_RESIZE_FAILED = "VolumeResizeFailed"

    STARTING = "Starting"
    NODE_READY = "NodeReady"
    NODE_NOT_READY = "NodeNotReady"
    NODE_SCHEDULABLE = "NodeSchedulable"
    NODE_NOT_SCHEDULABLE = "NodeNotSchedulable"
    REBOOTED = "Rebooted"
    NODE_SHUTDOWN = "Shutdown"
    NODE_ALLOCATABLE_ENFORCED = "NodeAllocatableEnforced"
    FAILED_NODE_ALLOCATABLE_ENFORCEMENT = "FailedNodeAllocatableEnforcement"
    NODE_HAS_SUFFICIENT_MEMORY = "NodeHasSufficientMemory"
    NODE_HAS_INSUFFICIENT_MEMORY = "NodeHasInsufficientMemory"
    NODE_HAS_DISK_PRESSURE = "NodeHasDiskPressure"
    NODE_HAS_NO_DISK_PRESSURE = "NodeHasNoDiskPressure"
    NODE_HAS_INSUFFICIENT_PID = "NodeHasInsufficientPID"
    NODE_HAS_SUFFICIENT_PID = "NodeHasSufficientPID"
    SYSTEM_OOM = "SystemOOM"

    EVICTED = "Evicted"
    EVICTION_THRESHOLD_MET = "EvictionThresholdMet"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    CONTAINER_GC_FAILED = "ContainerGCFailed"
    IMAGE_GC_FAILED = "ImageGCFailed"
    FREE_DISK_SPACE_FAILED = "FreeDiskSpaceFailed"
    INVALID_DISK_CAPACITY = "InvalidDiskCapacity"

    FAILED_VALIDATION = "FailedValidation"
    HOST_PORT_CONFLICT = "HostPortConflict"
    INSUFFICIENT_FREE_CPU = "InsufficientFreeCPU"
    INSUFFICIENT_FREE_MEMORY = "InsufficientFreeMemory"
    NODE_AFFINITY = "NodeAffinity"
    NODE_SELECTOR_MISMATCHING = "NodeSelectorMismatching"
    OUT_OF_PODS = "OutOfpods"
    UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"

    DNS_CONFIG_FORMING = "DNSConfigForming"
    MISSING_CLUSTER_DNS = "MissingClusterDNS"
