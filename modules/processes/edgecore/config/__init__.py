"""Configuration of edgecore: settings as immutable structs, read from, checked in and written to a file.

`load(path)` reads a file of KubeEdge's form and reports all its errors together; `EdgeCoreConfig.default` and
`EdgeCoreConfig.below` make a configuration without a file. The structs in `model`, `edgehub`, `edged` and `kubelet`
are the only description of the form; `writing` and `reference` print it from them.

The package imports nothing heavier than msgspec and PyYAML, so that `edgecore config` and `edgecore version` start
fast.
"""

from modules.processes.edgecore.config.errors import (
    ConfigError,
    Problem,
    Remark,
)
from modules.processes.edgecore.config.loading import LoadResult, load, loads, verify
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.names import PROCESS_ENDPOINT

__all__ = [
    "PROCESS_ENDPOINT",
    "ConfigError",
    "EdgeCoreConfig",
    "LoadResult",
    "Problem",
    "Remark",
    "load",
    "loads",
    "verify",
]
