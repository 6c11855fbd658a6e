"""What this program is and what it talks to, as constants.

A file of constants and not `importlib.metadata`: reading the metadata of the installed distribution imports
the email parser (a tenth of a second and 3 MB), and `setup.cfg` reads `VERSION` from here without running
anything else.
"""

from typing import Final

VERSION: Final = "0.1.0"
"""Version of this distribution; the only place where it is written."""

KUBEEDGE_COMMIT: Final = "16cd8548"
"""The KubeEdge commit (August 2026) whose messages, wire and configuration form this edgecore mirrors."""

KUBELET_VERSION: Final = f"v1.32.10-edgecore-{VERSION}"
"""What the node reports as its kubeletVersion: the Kubernetes release whose semantics it follows, and ours."""

CONFIG_API_VERSION: Final = "edgecore.config.kubeedge.io/v1alpha2"
"""The form of the configuration file."""

CRI_VERSIONS: Final = ("runtime.v1", "runtime.v1alpha2")
"""Versions of the container runtime interface, the preferred one first; the others are a fallback."""
