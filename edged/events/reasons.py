"""Reasons of the events that the agent sends: a kubelet's (pkg/kubelet/events), because tools look for them."""

from enum import StrEnum


class Reason(StrEnum):
    """The REASON column of `kubectl get events`."""

    CREATED = "Created"
    STARTED = "Started"
    FAILED = "Failed"
    """A container could not be created or started, or its image could not be pulled: the message tells them apart."""
    KILLING = "Killing"
    BACK_OFF = "BackOff"
    """A container's start, or the pull of its image, is delayed after failures."""
    FAILED_KILL_POD = "FailedKillPod"

    PULLING = "Pulling"
    PULLED = "Pulled"
    NO_REGISTRY_LOGIN = "FailedToRetrieveImagePullSecret"
    INSPECT_FAILED = "InspectFailed"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"

    FAILED_CREATE_POD_CONTAINER = "FailedCreatePodContainer"
    """The pod's control group could not be made."""
    FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox"
    SANDBOX_CHANGED = "SandboxChanged"

    UNHEALTHY = "Unhealthy"
    PROBE_WARNING = "ProbeWarning"
    FAILED_SYNC = "FailedSync"
    FAILED_POST_START_HOOK = "FailedPostStartHook"
    FAILED_PRE_STOP_HOOK = "FailedPreStopHook"

    FAILED_MOUNT = "FailedMount"
    DNS_CONFIG_FORMING = "DNSConfigForming"

    STARTING = "Starting"
    NODE_READY = "NodeReady"
    NODE_NOT_READY = "NodeNotReady"
    REBOOTED = "Rebooted"
    NODE_SHUTDOWN = "Shutdown"
    NODE_HAS_SUFFICIENT_MEMORY = "NodeHasSufficientMemory"
    NODE_HAS_INSUFFICIENT_MEMORY = "NodeHasInsufficientMemory"
    NODE_HAS_DISK_PRESSURE = "NodeHasDiskPressure"
    NODE_HAS_NO_DISK_PRESSURE = "NodeHasNoDiskPressure"
    NODE_HAS_INSUFFICIENT_PID = "NodeHasInsufficientPID"
    NODE_HAS_SUFFICIENT_PID = "NodeHasSufficientPID"
    MAPPER_NOT_READY = "MapperNotReady"
    MAPPER_READY = "MapperReady"
    """A mapper of devices has ended, or is back (no event of a kubelet)."""
    MQTT_BROKER_NOT_READY = "MQTTBrokerNotReady"
    MQTT_BROKER_READY = "MQTTBrokerReady"
    """An MQTT broker does not serve the node, or does so again (no event of a kubelet)."""

    EVICTED = "Evicted"
    EVICTION_THRESHOLD_MET = "EvictionThresholdMet"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    INVALID_VARIABLE_NAMES = "InvalidEnvironmentVariableNames"

    IMAGE_GC_FAILED = "ImageGCFailed"
    FREE_DISK_SPACE_FAILED = "FreeDiskSpaceFailed"
    INVALID_DISK_CAPACITY = "InvalidDiskCapacity"

    UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
