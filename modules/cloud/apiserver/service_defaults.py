"""The ranges of the addresses and node ports of Services; the defaults are kube-apiserver's."""

from typing import Final

DEFAULT_RANGE: Final = "10.96.0.0/16"
DEFAULT_PORTS: Final = "30000-32767"
