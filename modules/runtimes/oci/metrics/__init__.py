"""CRI's metrics: cAdvisor's metrics of containers and pods, under its names, measured at each request."""

from modules.runtimes.oci.metrics.collector import MetricsCollector
from modules.runtimes.oci.metrics.descriptors import metric_descriptors

__all__ = [
    "MetricsCollector",
    "metric_descriptors",
]
