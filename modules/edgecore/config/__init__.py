"""Configuration of edgecore: the settings as immutable structs, and reading, checking and writing them as a
file.

`load(path)` reads a file of KubeEdge's form and says everything that is wrong with it at once;
`EdgeCoreConfig.default` and `EdgeCoreConfig.embedded` make one without a file. The structs in `model`,
`edgehub`, `edged` and `kubelet` are the only description of the form: what prints (`writing`) and documents
(`reference`) it walks over them.

Imports nothing heavier than msgspec and PyYAML, so that `edgecore config` and `edgecore version` start at
once.
"""

from modules.edgecore.config.errors import (
    ConfigError,
    ConfigSyntaxError,
    ConfigUnreadableError,
    Problem,
    Remark,
)
from modules.edgecore.config.loading import LoadResult, load, loads, verify
from modules.edgecore.config.model import EdgeCoreConfig
from modules.edgecore.config.names import EMBEDDED_ENDPOINT

__all__ = [
    "EMBEDDED_ENDPOINT",
    "ConfigError",
    "ConfigSyntaxError",
    "ConfigUnreadableError",
    "EdgeCoreConfig",
    "LoadResult",
    "Problem",
    "Remark",
    "load",
    "loads",
    "verify",
]
