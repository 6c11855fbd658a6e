"""Versions of edgecore and of its interfaces.

Constants instead of `importlib.metadata`, because reading the metadata of the installed distribution imports the email
parser (a tenth of a second and 3 MB). `setup.cfg` reads `VERSION` from here without running anything else.
"""

from typing import Final

VERSION: Final = "0.1.0"
"""Version of this distribution, written here only."""

KUBEEDGE_COMMIT: Final = "16cd8548"
"""KubeEdge commit (August 2026) whose messages, wire format and configuration this edgecore follows."""

KUBELET_VERSION: Final = f"v1.32.10-edgecore-{VERSION}"
"""The node's kubeletVersion: the Kubernetes release whose semantics it follows, and edgecore's version."""

CONFIG_API_VERSION: Final = "edgecore.config.kubeedge.io/v1alpha2"
"""Form of the configuration file."""

CRI_VERSIONS: Final = ("runtime.v1", "runtime.v1alpha2")
"""Versions of the container runtime interface; the first is preferred."""
