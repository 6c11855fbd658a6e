"""The ranges of the addresses and node ports of Services, as kube-apiserver has them unless it is told others."""

from typing import Final

DEFAULT_RANGE: Final = "10.96.0.0/16"
DEFAULT_PORTS: Final = "30000-32767"
