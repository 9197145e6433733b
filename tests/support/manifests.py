"""What deploy/ has: the Kubernetes objects, the parts of them that tests ask for, and files as a pod would see them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = tuple(sorted((DEPLOY / "kubernetes").glob("*.yaml")))
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Container:
    """One of a pod, with what of the pod is about it too."""

    deployment: str
    pod: Object
    spec: Object

    @property
    def name(self) -> str:
        return f"{self.deployment}/{self.spec['name']}"

    @property
    def arguments(self) -> list[str]:
        return list(self.spec.get("args", []))

    @property
    def is_ours(self) -> bool:
        """Whether it runs the command line of Greenroom."""
        return str(self.spec["image"]).startswith("greenroom") and "command" not in self.spec

    @property
    def ports(self) -> Mapping[str, int]:
        return {port["name"]: port["containerPort"] for port in self.spec.get("ports", [])}

    def volume(self, name: str) -> Object:
        return next(volume for volume in self.pod["volumes"] if volume["name"] == name)


def objects(kind: str = "") -> list[Object]:
    """All of them, or those of one kind."""
    found = [one for path in FILES for one in yaml.safe_load_all(path.read_text())]
    return [one for one in found if not kind or one["kind"] == kind]


def named(kind: str, name: str) -> Object:
    return next(one for one in objects(kind) if one["metadata"]["name"] == name)


def containers() -> Iterator[Container]:
    """Those of all Deployments."""
    for deployment in objects("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        for spec in pod["containers"]:
            yield Container(deployment["metadata"]["name"], pod, spec)


def container(name: str) -> Container:
    """By `deployment/name`."""
    return next(one for one in containers() if one.name == name)


def mounted(one: Container, folder: Path, given: Mapping[str, Mapping[str, str]]) -> dict[str, Path]:
    """The files of a container's ConfigMaps and Secrets in folders of `folder`, by the path of the mount.

    `given` are the Secrets, which no manifest has: of each name its files.
    """
    made: dict[str, Path] = {}
    for mount in one.spec["volumeMounts"]:
        files = _files(one.volume(mount["name"]), given)
        if files is not None:
            made[mount["mountPath"]] = place = folder / mount["name"]
            place.mkdir()
            for name, text in files.items():
                (place / name).write_text(text)
                (place / name).chmod(0o644)  # as kubelet leaves them, whose owner is root
    return made


def _files(volume: Object, given: Mapping[str, Mapping[str, str]]) -> Mapping[str, str] | None:
    if "configMap" in volume:
        data: Mapping[str, str] = named("ConfigMap", volume["configMap"]["name"])["data"]
        return data
    if "secret" not in volume:
        return None
    files = given[volume["secret"]["secretName"]]
    items = {item["key"]: item["path"] for item in volume["secret"].get("items", [])}
    return {items[key]: files[key] for key in items} if items else files
