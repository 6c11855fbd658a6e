"""A CustomResourceDefinition for tests."""

from typing import Any

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEVICES = "/apis/devices.example.io/v1/namespaces/default/devices"


def definition(
    kind: str = "Device", plural: str = "devices", group: str = "devices.example.io", **names: Any
) -> dict[str, Any]:
    """Return the definition of a kind with a status and columns."""
    spec = {
        "type": "object",
        "required": ["protocol"],
        "properties": {
            "protocol": {"type": "string", "enum": ["modbus", "opcua"], "description": "How it is spoken to."},
            "rate": {"type": "integer", "minimum": 1, "default": 5},
        },
    }
    status = {"type": "object", "properties": {"state": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Protocol", "type": "string", "jsonPath": ".spec.protocol"}],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), **names},
            "versions": [version],
        },
    }


def device(name: str = "pump", **spec: Any) -> dict[str, Any]:
    """Return a custom object."""
    return {
        "apiVersion": "devices.example.io/v1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"protocol": "modbus", **spec},
    }
