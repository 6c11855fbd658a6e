"""What a target of an EdgeApplication changes in a Deployment (KubeEdge's `edgeapplication/overridemanager`): its
replicas, and the specification of its pods.
"""

from collections.abc import Iterator
from typing import Any, Final

from modules.apimachinery.image_names import ImageNameError, parse_image
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, invalid, required

_PODS: Final = ["spec", "template", "spec"]
"""The path of all that overriders change beside the replicas."""


def override(deployment: JsonObject, overriders: JsonObject, where: str) -> Iterator[Cause]:
    """Change a Deployment, and yield the faults of the overriders.

    Args:
        deployment: is changed.
        overriders: as the schema of EdgeApplications has them.
        where: their path.
    """
    if (replicas := overriders.get("replicas")) is not None:
        deployment["spec"]["replicas"] = replicas
    for at, each in enumerate(overriders.get("imageOverriders") or ()):
        yield from _override_images(deployment, each, f"{where}.imageOverriders[{at}]")
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        for each in _of_container(overriders, "envOverriders", container):
            container["env"] = _environment(container.get("env") or [], each)
        for name in ("command", "args"):
            for each in _of_container(overriders, f"{name}Overriders", container):
                container[name] = _words(container.get(name) or [], each)
        for each in _of_container(overriders, "resourcesOverriders", container):
            before = container.get("resources") or {}
            changed = {kind: {**(before.get(kind) or {}), **amounts} for kind, amounts in each["value"].items()}
            container["resources"] = {**before, **changed}


def fixed_part(deployment: JsonObject) -> JsonObject:
    """Return the part of a Deployment that overriders do not change: all but its replicas and its pods' spec."""
    spec, template = deployment["spec"], deployment["spec"]["template"]
    kept = {name: value for name, value in spec.items() if name not in ("replicas", "template")}
    of_pods = {name: value for name, value in template.items() if name != "spec"}
    return {**deployment, "spec": {**kept, "template": of_pods}}


def _of_container(overriders: JsonObject, name: str, container: JsonObject) -> Iterator[JsonObject]:
    yield from (each for each in overriders.get(name) or () if each["containerName"] == container.get("name"))


def _environment(before: list[JsonObject], overrider: JsonObject) -> list[JsonObject]:
    given = {each["name"]: each for each in overrider.get("value") or ()}
    match overrider["operator"]:
        case "add":
            return [*before, *(overrider.get("value") or ())]
        case "remove":
            return [each for each in before if each.get("name") not in given]
    kept = [given.pop(str(each.get("name")), each) for each in before]
    return [*kept, *given.values()]


def _words(before: list[str], overrider: JsonObject) -> list[str]:
    given = overrider.get("value") or []
    return [*before, *given] if overrider["operator"] == "add" else [word for word in before if word not in given]


def _override_images(deployment: JsonObject, overrider: JsonObject, where: str) -> Iterator[Cause]:
    if overrider["operator"] != "remove" and not overrider.get("value"):
        yield required(f"{where}.value", "must not be empty when the operator is add or replace")
        return
    if (predicate := overrider.get("predicate")) is not None:
        *steps, last = str(predicate["path"]).strip("/").split("/")
        if steps[:3] != _PODS:
            yield invalid(f"{where}.predicate.path", predicate["path"], f"must begin with /{'/'.join(_PODS)}/")
            return
        holder = _walked(deployment, steps)
        if not isinstance(holder, dict) or not isinstance(holder.get(last), str):
            yield invalid(f"{where}.predicate.path", predicate["path"], "it is not the path of a text in the manifest")
            return
        places = [(holder, last)]
    else:
        places = [(container, "image") for container in deployment["spec"]["template"]["spec"]["containers"]]
    for holder, name in places:
        holder[name] = image = _image(str(holder.get(name) or ""), overrider)
        try:
            parse_image(image)
        except ImageNameError:
            yield invalid(f"{where}.value", overrider.get("value", ""), f"{image!r} is not the name of an image")


def _walked(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


_PARTS: Final = {"Registry": 0, "Repository": 1, "Tag": 2}


def _image(image: str, overrider: JsonObject) -> str:
    """Return an image with another registry, repository, or tag or digest."""
    parts = list(_split(image))
    value, part = str(overrider.get("value", "")), _PARTS[overrider["component"]]
    match overrider["operator"]:
        case "add":
            parts[part] += value
        case "replace":
            parts[part] = value
        case _:
            parts[part] = ""
    registry, repository, tag = parts
    tag = tag.removeprefix("@")
    mark = "@" if ":" in tag else ":"
    return "/".join(filter(None, (registry, repository))) + (f"{mark}{tag}" if tag else "")


def _split(image: str) -> tuple[str, str, str]:
    """Return registry, repository, and tag or digest; a tag beside a digest means nothing."""
    name, _, digest = image.partition("@")
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    name = head + slash + last
    first, slash, rest = name.partition("/")
    has_registry = slash and ("." in first or ":" in first or first == "localhost")
    return (first, rest, digest or tag) if has_registry else ("", name, digest or tag)
