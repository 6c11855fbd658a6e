"""What pods read in their volumes: from each source, under each name and mode, as each user, and as it changes."""

from contextlib import suppress
from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.crowd.crowd import Crowd, lasting, once, wants
from tests.end_to_end.crowd.test_environment import from_field, from_resource, secret
from tests.end_to_end.machine import NODE
from tests.end_to_end.pods import config_map, container, is_ready, mount, state_of
from tests.end_to_end.processes import wait_until

_SOMEBODY = {"runAsUser": 1000, "runAsGroup": 1000}
_MODES = "umask 0; cd /v; for m in 644 666 777; do echo $m > f$m && chmod $m f$m && cat f$m && stat -c %a f$m; done"


def _writer(name: str, medium: str, user: JsonObject) -> JsonObject:
    volume = {"name": "v", "emptyDir": {"medium": medium}}
    return once(name, _MODES, mounts=[mount("v", "/v")], volumes=[volume], securityContext=user)


_WRITERS = {
    name: _writer(name, medium, user)
    for name, medium, user in (
        ("contents-root-disk", "", {}),
        ("contents-root-memory", "Memory", {}),
        ("contents-user-disk", "", _SOMEBODY),
        ("contents-user-memory", "Memory", _SOMEBODY),
    )
}


@pytest.mark.parametrize("name", _WRITERS)
@wants(*_WRITERS.values())
def test_a_file_keeps_its_mode_on_disk_and_in_memory(crowd: Crowd, name: str) -> None:
    assert crowd.said(name) == ["644", "644", "666", "666", "777", "777"]


_AMOUNTS = ("limits.cpu", "requests.cpu", "limits.memory", "requests.memory")


def _upwards(name: str, *resources: str) -> list[JsonObject]:
    """Volumes of the downward API, as one and as a part of a projected one."""
    amounts = [
        {"path": each, "resourceFieldRef": {"containerName": "app", "resource": each, "divisor": divisor}}
        for each in resources
        for divisor in ("1m" if each.endswith("cpu") else "1Mi",)
    ]
    given = {"path": "name", "mode": 0o444, "fieldRef": {"fieldPath": "metadata.name"}}
    source = {"items": [given, *amounts]}
    return [
        {"name": "plain", "downwardAPI": {**source, "defaultMode": 0o400}},
        {"name": "projected", "projected": {"sources": [{"downwardAPI": source}], "defaultMode": 0o400}},
    ]


_BOTH = [mount("plain", "/plain"), mount("projected", "/projected")]
_READ = "for d in /plain /projected; do cd $d; for f in {}; do cat $f; echo; done; stat -L -c %a name limits.cpu; done"


@wants(
    once(
        "contents-amounts",
        _READ.format(" ".join(("name", *_AMOUNTS))),
        mounts=_BOTH,
        volumes=_upwards("amounts", *_AMOUNTS),
        resources={"limits": {"cpu": "1250m", "memory": "64Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
    )
)
def test_amounts_of_the_container_in_files(crowd: Crowd) -> None:
    """And the pod's name, the default mode, and the mode of an item."""
    assert crowd.said("contents-amounts") == ["contents-amounts", "1250", "10", "64", "32", "444", "400"] * 2


@wants(
    once(
        "contents-without-limits",
        "cat /plain/limits.cpu /projected/limits.cpu | fold -w $(($(wc -c < /plain/limits.cpu))); echo; echo $CPU",
        env=[from_resource("CPU", "limits.cpu", "1m")],
        mounts=_BOTH,
        volumes=_upwards("without", "limits.cpu"),
    )
)
def test_without_a_limit_the_file_has_what_the_node_has(crowd: Crowd) -> None:
    plain, projected, variable = crowd.said("contents-without-limits")
    allocatable = crowd.machine.cloud.get("Node", NODE)["status"]["allocatable"]["cpu"]
    milli = allocatable.removesuffix("m") if allocatable.endswith("m") else f"{allocatable}000"
    assert plain == projected == variable == milli


_ITEMS = [{"key": "a", "path": "deep/a", "mode": 0o404}, {"key": "b", "path": "b"}]
_SOURCES: dict[str, JsonObject] = {
    "map": {"configMap": {"name": "contents-map"}},
    "map-again": {"configMap": {"name": "contents-map"}},
    "map-items": {"configMap": {"name": "contents-map", "items": _ITEMS}},
    "secret": {"secret": {"secretName": "contents-secret", "defaultMode": 0o444}},
    "secret-again": {"secret": {"secretName": "contents-secret", "defaultMode": 0o444}},
    "secret-items": {"secret": {"secretName": "contents-secret", "items": _ITEMS}},
    "part-map": {"projected": {"sources": [{"configMap": {"name": "contents-map"}}]}},
    "part-map-again": {"projected": {"sources": [{"configMap": {"name": "contents-map"}}]}},
    "part-map-items": {"projected": {"sources": [{"configMap": {"name": "contents-map", "items": _ITEMS}}]}},
    "part-secret": {"projected": {"sources": [{"secret": {"name": "contents-secret"}}]}},
    "part-secret-again": {"projected": {"sources": [{"secret": {"name": "contents-secret"}}]}},
    "part-secret-items": {"projected": {"sources": [{"secret": {"name": "contents-secret", "items": _ITEMS}}]}},
}


@wants(
    config_map("contents-map", a="1", b="2"),
    secret("contents-secret", a="3", b="4"),
    once(
        "contents-sources",
        "for d in /v/*; do cd $d; f=a; [ -e deep/a ] && f=deep/a;"
        " echo ${d#/v/} $(cat $f b) $([ $f = a ] || stat -L -c %a $f); done",
        mounts=[mount(name, f"/v/{name}") for name in _SOURCES],
        volumes=[{"name": name, **source} for name, source in _SOURCES.items()],
        securityContext=_SOMEBODY,
    ),
)
def test_each_source_for_a_user_who_is_not_root(crowd: Crowd) -> None:
    """The same source may be in several volumes of a pod; items have names and modes of their own."""
    said = dict(line.split(" ", 1) for line in crowd.said("contents-sources"))
    assert said == {
        name: ("34" if "secret" in name else "12") + (" 404" if name.endswith("items") else "") for name in _SOURCES
    }


@wants(
    secret("contents-owned", key="mine"),
    once(
        "contents-group",
        "cat /v/key; echo; stat -L -c %g:%a /v/key",
        mounts=[mount("v", "/v")],
        volumes=[
            {"name": "v", "projected": {"sources": [{"secret": {"name": "contents-owned"}}], "defaultMode": 0o400}}
        ],
        securityContext={**_SOMEBODY, "fsGroup": 4321},
    ),
)
def test_a_group_reads_a_part_of_a_projected_volume(crowd: Crowd) -> None:
    assert crowd.said("contents-group") == ["mine", "4321:440"]


@wants(
    config_map("contents-parts", word="from a configmap"),
    secret("contents-part", word="from a secret"),
    once(
        "contents-sub-paths",
        "cat /etc/passwd; echo; for f in /s/*; do cat $f; echo; done",
        mounts=[
            mount("map", "/etc/passwd", subPath="word"),
            mount("down", "/s/1", subPath="name"),
            mount("secret", "/s/2", subPath="word"),
            mount("all", "/s/3", subPath="deep/word"),
        ],
        volumes=[
            {"name": "map", "configMap": {"name": "contents-parts"}},
            {
                "name": "down",
                "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
            },
            {"name": "secret", "secret": {"secretName": "contents-part"}},
            {
                "name": "all",
                "projected": {"sources": [
                    {"configMap": {"name": "contents-parts", "items": [{"key": "word", "path": "deep/word"}]}}]},
            },
        ],
    ),
)  # fmt: skip
def test_one_file_of_each_kind_of_volume_also_over_an_existing_one(crowd: Crowd) -> None:
    expected = ["from a configmap", "contents-sub-paths", "from a secret", "from a configmap"]
    assert crowd.said("contents-sub-paths") == expected


_PLUGINS = {"map": "configmap", "secret": "secret", "part-map": "projected", "part-secret": "projected"}
_NAMES = ("late", "changed", "gone")


def _optional(kind: str, name: str) -> JsonObject:
    """An optional volume of a kind, of the configmap or secret of this name."""
    named = {"name": f"contents-{name}", "optional": True}
    source: dict[str, JsonObject] = {
        "map": {"configMap": named},
        "secret": {"secret": {"secretName": f"contents-{name}", "optional": True}},
        "part-map": {"projected": {"sources": [{"configMap": named}]}},
        "part-secret": {"projected": {"sources": [{"secret": named}]}},
    }
    return {"name": f"{kind}-{name}", **source[kind]}


_OPTIONAL = [_optional(kind, name) for kind in _PLUGINS for name in _NAMES]


def _files(directory: Path) -> dict[str, str]:
    """Return what is in the files of a volume, but for one that goes meanwhile."""
    found = {}
    for each in directory.iterdir():
        if not each.name.startswith(".."):
            with suppress(FileNotFoundError):
                found[each.name] = each.read_text()
    return found


@wants(
    *(made(f"contents-{name}", key="old") for made in (config_map, secret) for name in ("changed", "gone")),
    lasting(
        "contents-optional",
        container(volumeMounts=[mount(each["name"], f"/v/{each['name']}") for each in _OPTIONAL]),
        volumes=_OPTIONAL,
    ),
)
def test_optional_sources_come_change_and_go(crowd: Crowd) -> None:
    made = crowd.wait("contents-optional", is_ready)

    def found() -> dict[str, dict[str, str]]:
        edge = crowd.machine.edge
        return {
            f"{kind}-{name}": _files(edge.volume(made, plugin, f"{kind}-{name}"))
            for kind, plugin in _PLUGINS.items()
            for name in _NAMES
        }

    old = {"late": {}, "changed": {"key": "old"}, "gone": {"key": "old"}}
    assert found() == {f"{kind}-{name}": files for kind in _PLUGINS for name, files in old.items()}
    for make, kind in ((config_map, "ConfigMap"), (secret, "Secret")):
        crowd.machine.cloud.apply(*(make(f"contents-{name}", key="new") for name in ("late", "changed")))
        crowd.machine.cloud.delete(kind, "contents-gone")
    new = {"late": {"key": "new"}, "changed": {"key": "new"}, "gone": {}}
    expected = {f"{kind}-{name}": files for kind in _PLUGINS for name, files in new.items()}
    wait_until(lambda: found() == expected, "the files are those of the changed objects")


def _labelled(colour: str) -> JsonObject:
    items = [{"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}} for name in ("labels", "annotations")]
    volumes = [
        {"name": "plain", "downwardAPI": {"items": items}},
        {"name": "projected", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ]
    made = lasting("contents-labelled", container(volumeMounts=_BOTH), volumes=volumes)
    made["metadata"] |= {"labels": {"colour": colour}, "annotations": {"builder": colour}}
    return made


@wants(_labelled("red"))
def test_files_of_labels_and_annotations_follow_them(crowd: Crowd) -> None:
    made = crowd.wait("contents-labelled", is_ready)

    def shown(colour: str) -> bool:
        found = [
            _files(crowd.machine.edge.volume(made, plugin, name))
            for plugin, name in (("downward-api", "plain"), ("projected", "projected"))
        ]
        return all(
            files["labels"] == f'colour="{colour}"' and f'builder="{colour}"' in files["annotations"] for files in found
        )

    assert shown("red")
    changed = crowd.machine.cloud.get("Pod", "contents-labelled")
    changed["metadata"] |= {"labels": {"colour": "blue"}, "annotations": {"builder": "blue"}}
    crowd.machine.cloud.apply({**_labelled("blue"), "spec": changed["spec"]})
    wait_until(lambda: shown("blue"), "the files have the new values")


_LATE_PATH = lasting(
    "contents-late-path",
    container(
        env=[from_field("PART", "metadata.annotations['part']"), from_field("NAME", "metadata.name")],
        volumeMounts=[mount("v", "/v", subPathExpr="$(PART)/$(NAME)")],
    ),
    volumes=[{"name": "v", "emptyDir": {}}],
)


@wants(_LATE_PATH)
def test_a_path_that_leads_out_is_refused_until_an_annotation_mends_it(crowd: Crowd) -> None:
    name = "contents-late-path"
    crowd.wait(name, lambda obj: state_of(obj, "waiting").get("reason") == "CreateContainerConfigError")
    made = crowd.machine.cloud.get("Pod", name)
    crowd.machine.cloud.apply({**_LATE_PATH, "metadata": {**_LATE_PATH["metadata"], "annotations": {"part": "deep"}},
                               "spec": made["spec"]})  # fmt: skip
    crowd.wait(name, is_ready)
