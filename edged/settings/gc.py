"""Limits of garbage collection; apart from the collectors, because edged's settings import them."""

from msgspec import Struct


class ContainerPolicy(Struct, frozen=True, kw_only=True):
    """Limits for dead containers (kubelet's GCPolicy)."""

    minimum_age: float = 0.0
    """Seconds since its creation before which no container is removed (`minimumGCAge`)."""
    per_pod: int = 1
    """Dead containers to keep of each name in a pod; negative: all (`maxPerPodContainerCount`)."""
    total: int = -1
    """Dead containers to keep of all pods together; negative: no limit (`maxContainerCount`)."""

    @property
    def kept_per_sync(self) -> int:
        """Dead containers of each name that a pod's own sync leaves: at least one, as in kubelet's container deletor,
        because the pod's status has its exit.
        """
        return max(self.per_pod, 1)


class ImagePolicy(Struct, frozen=True, kw_only=True):
    """Limits for images (kubelet's ImageGCPolicy)."""

    high: int = 85
    """Used percentage of the images' file system that starts the removal of images; 100: never
    (`imageGCHighThresholdPercent`).
    """
    low: int = 80
    """Used percentage to reach by that (`imageGCLowThresholdPercent`)."""
    minimum_age: float = 120.0
    """Seconds since it was first listed before which no image is removed (`imageMinimumGCAge`): a new image is about to
    be used.
    """
    maximum_age: float = 0.0
    """Seconds without use after which an image is removed in any case; 0: never (`imageMaximumGCAge`)."""


class LogPolicy(Struct, frozen=True, kw_only=True):
    """Limits for container logs."""

    size: int = 10 * 1024 * 1024
    """Size in bytes that makes a log rotate; 0: never (`containerLogMaxSize`)."""
    files: int = 5
    """Files to keep of a log, including the current one (`containerLogMaxFiles`)."""
    period: float = 10.0
    """Seconds between two checks (`containerLogMonitorInterval`)."""


class GcSettings(Struct, frozen=True, kw_only=True):
    """All limits of garbage collection."""

    containers: ContainerPolicy = ContainerPolicy()
    images: ImagePolicy | None = ImagePolicy()
    """None: images are not collected (the process runtime has no images)."""
    logs: LogPolicy = LogPolicy()
