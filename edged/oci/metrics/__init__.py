"""CRI's metrics: what cAdvisor tells of containers and pods, under its names, measured when somebody asks."""

from edged.oci.metrics.collector import MetricsCollector
from edged.oci.metrics.descriptors import metric_descriptors

__all__ = ["MetricsCollector", "metric_descriptors"]
