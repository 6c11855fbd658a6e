"""How much of the past a node keeps; apart from what collects it, because edged's settings name it."""

from msgspec import Struct


class ContainerPolicy(Struct, frozen=True, kw_only=True):
    """Dead containers (kubelet's GCPolicy)."""

    minimum_age: float = 0.0
    """Seconds since its creation before which none is collected (`minimumGCAge`)."""
    per_pod: int = 1
    """Dead ones that are kept of each name in a pod; negative: all (`maxPerPodContainerCount`)."""
    total: int = -1
    """Dead ones that are kept of all pods together; negative: no limit (`maxContainerCount`)."""

    @property
    def kept_in_turn(self) -> int:
        """Dead ones of each name that a pod's own turn leaves: one at least, as with kubelet's container deletor, for
        the pod's status tells of its end.
        """
        return max(self.per_pod, 1)


class ImagePolicy(Struct, frozen=True, kw_only=True):
    """Images (kubelet's ImageGCPolicy)."""

    high: int = 85
    """Percent of the images' file system in use from which on images are removed; 100: never
    (`imageGCHighThresholdPercent`)."""
    low: int = 80
    """Percent that is aimed at (`imageGCLowThresholdPercent`)."""
    minimum_age: float = 120.0
    """Seconds since it was first seen before which no image is removed (`imageMinimumGCAge`): one that has just been
    pulled is about to be used."""
    maximum_age: float = 0.0
    """Seconds without use after which an image is removed whatever room there is; 0: none is (`imageMaximumGCAge`)."""


class LogPolicy(Struct, frozen=True, kw_only=True):
    """Logs of containers."""

    size: int = 10 * 1024 * 1024
    """Bytes from which on a log is rotated; 0: never (`containerLogMaxSize`)."""
    files: int = 5
    """Files that are kept of a log, with the one that is written (`containerLogMaxFiles`)."""
    period: float = 10.0
    """Seconds between two looks (`containerLogMonitorInterval`)."""


class GcSettings(Struct, frozen=True, kw_only=True):
    """All of it."""

    containers: ContainerPolicy = ContainerPolicy()
    images: ImagePolicy | None = ImagePolicy()
    """None: images are nobody's business here (the embedded runtime has none)."""
    logs: LogPolicy = LogPolicy()
