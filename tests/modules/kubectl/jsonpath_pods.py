"""The objects for the templates of `jsonpath_cases.json`."""

from typing import Any, Final


def _pod(name: str, priority: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "web", "a.b/c": "d"},
            "annotations": {"n": "<&>é"},
        },
        "spec": {
            "nodeName": "n1",
            "priority": priority,
            "containers": [
                {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}, {"containerPort": 81}]},
                {"name": "d", "image": "j", "tty": True, "stdin": None},
            ],
            "f": 1.5,
            "big": 1e21,
            "e": [],
            "m": {},
            "s": "",
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Init", "status": "False"}],
        },
    }


PODS: Final = [_pod("x", 3), _pod("y", 7)]
LIST: Final = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": PODS}
