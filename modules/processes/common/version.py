"""Versions of edgecore and of its interfaces.

Constants instead of `importlib.metadata`, because reading the metadata of the installed distribution imports the email
parser (a tenth of a second and 3 MB). `setup.py` writes version and commit into the copy
of this file in a wheel or an sdist.
"""

from typing import Final

VERSION: Final = "0.7.0.dev0"
"""Version of this distribution, written here only: a release (`0.2.0`), or what leads to one (`0.3.0.dev0`). In a wheel
the last number of the latter grows with every commit (`0.3.0.dev5210+g46384b1b`).
"""

COMMIT: Final = ""
"""Commit of the wheel or sdist; empty in a clone."""

COMMIT_TIME: Final = ""
"""Time of this commit, as of RFC 3339 in UTC; empty in a clone."""

KUBEEDGE_COMMIT: Final = "16cd8548"
"""KubeEdge commit (August 2026) whose messages, wire format and configuration this edgecore follows."""

KUBELET_VERSION: Final = f"v1.32.10-edgecore-{VERSION}"
"""The node's kubeletVersion: the Kubernetes release whose semantics it follows, and edgecore's version."""

CONFIG_API_VERSION: Final = "edgecore.config.kubeedge.io/v1alpha2"
"""Form of the configuration file."""

CRI_VERSIONS: Final = ("runtime.v1", "runtime.v1alpha2")
"""Versions of the container runtime interface; the first is preferred."""
