"""CRI's metrics: cAdvisor's metrics of containers and pods, under its names, measured at each request."""

from edged.oci.metrics.collector import MetricsCollector
from edged.oci.metrics.descriptors import metric_descriptors

__all__ = ["MetricsCollector", "metric_descriptors"]
