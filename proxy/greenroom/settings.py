"""Everything that `greenroom serve` can be told: by options, or by the same names as GREENROOM_… variables.

The rule: whatever is wrong is found here, before anything starts, and said in one line that names the field as it was
given and its value.
"""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from greenroom.access.reloading import AccessInForce
from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.core.policy import LARGEST_TIMEOUT_SECONDS, Policy, check_gate_name, gates_for_everything
from greenroom.durations import format_duration, parse_duration
from greenroom.errors import SettingsError
from greenroom.passwords import read_password
from greenroom.policy_file import PolicyFileError, parse_policy
from greenroom.preview.settings import PreviewSettings
from greenroom.setting_errors import wrong
from greenroom.tls.settings import TlsSettings
from greenroom.yaml_files import YamlFileError, read_text

ENV_PREFIX = "GREENROOM_"
_PASSWORD = re.compile(r"//[^,]*@")
"""Up to the last @ before a comma: a password that was not escaped can have any other character."""
_PASSWORD_VARIABLE = f"{ENV_PREFIX}UPSTREAM_PASSWORD"
BY_VARIABLE_ONLY = frozenset({"upstream_password"})
"""Every process of a machine can read the command lines of all others."""
SAFE_CONTROL = "give --control-tls-cert with --control-tls-client-ca, or with --access"
NOTHING_IS_HELD = "nothing would ever be held; add one, or say --allow-ungated"


class LogLevel(StrEnum):
    """The least that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Lines for people, or for programs."""

    CONSOLE = "console"
    JSON = "json"


def _listed(given: object) -> object:
    """Comma-separated text, or several of them, as one list."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, (list, tuple)):
        return given
    return tuple(part.strip() for text in texts for part in str(text).split(",") if part.strip())


def _addresses_of_urls(given: object) -> object:
    listed = _listed(given)
    return tuple(map(Address.of_url, listed)) if isinstance(listed, tuple) else listed


def _parsed_address(given: object) -> object:
    return Address.parse(given) if isinstance(given, str) else given


def _gate_timeouts(given: object) -> object:
    """Seconds by gate, from `smoke=900s` and the like."""
    listed = _listed(given)
    if not isinstance(listed, tuple):
        return listed
    timeouts: dict[str, float] = {}
    for text in listed:
        name, equals, duration = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is no NAME=TIMEOUT such as smoke=900s")
        if check_gate_name(name) in timeouts:
            raise ValueError(f"gate {name!r} is given twice")
        timeouts[name] = parse_duration(duration)
        if timeouts[name] > LARGEST_TIMEOUT_SECONDS:
            raise ValueError(f"gate {name!r}: a timeout is at most {format_duration(LARGEST_TIMEOUT_SECONDS)}")
    return timeouts


def _advertised(given: object) -> object:
    return Address.of_url(given).url if isinstance(given, str) else given


ListenAddress = Annotated[Address, NoDecode, BeforeValidator(_parsed_address)]
OptionalAddress = Annotated[Address | None, NoDecode, BeforeValidator(_parsed_address)]
Upstreams = Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_addresses_of_urls)]
GateTimeouts = Annotated[Mapping[str, float], NoDecode, BeforeValidator(_gate_timeouts)]


class Settings(TlsSettings, PreviewSettings):
    """What one proxy was told. Gates are seconds by name; addresses of port 0 take any free port."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    upstream: Upstreams = ()
    upstream_user: str | None = None
    upstream_password_file: Path | None = None
    upstream_password: SecretStr | None = None
    listen: ListenAddress = Address("127.0.0.1", 2389)
    public_listen: OptionalAddress = None
    control_listen: ListenAddress = Address.parse(DEFAULT_CONTROL)
    http_listen: ListenAddress = Address("127.0.0.1", 2391)
    policy: Path | None = None
    gate: GateTimeouts = Field(default_factory=dict)
    embedded_etcd: bool = False
    embedded_etcd_listen: ListenAddress = Address("127.0.0.1", 0)
    data_dir: Path | None = None
    access: Path | None = None
    open_metrics: bool = False
    insecure_control: bool = False
    allow_ungated: bool = False
    allow_revoke_lease: bool = False
    advertise_client_url: Annotated[str | None, BeforeValidator(_advertised)] = None
    public_advertise_client_url: Annotated[str | None, BeforeValidator(_advertised)] = None
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.CONSOLE

    @model_validator(mode="after")
    def _one_etcd(self) -> Self:
        if self.embedded_etcd and self.upstream:
            wrong("upstream", "--embedded-etcd brings an etcd of its own; give one of the two")
        if not self.embedded_etcd and not self.upstream:
            wrong("upstream", "is not given: etcd's URL, such as http://127.0.0.1:2379, or --embedded-etcd")
        if self.data_dir is not None and not self.embedded_etcd:
            wrong("data_dir", "is the embedded etcd's; give --embedded-etcd with it")
        return self

    @model_validator(mode="after")
    def _all_members_alike(self) -> Self:
        is_secure = {address.is_secure for address in self.upstream}
        if len(is_secure) > 1:
            wrong("upstream", "has members with http:// and with https://; all must be alike")
        self.check_upstream_tls(is_secure=True in is_secure)
        return self

    @model_validator(mode="after")
    def _public_port_for_its_url(self) -> Self:
        if self.public_advertise_client_url is not None and self.public_listen is None:
            wrong("public_advertise_client_url", "is for --public-listen, which is not given")
        return self

    @model_validator(mode="after")
    def _user_with_password(self) -> Self:
        given = [field for field in ("upstream_password_file", "upstream_password") if getattr(self, field) is not None]
        if self.upstream_user is None and given:
            wrong(given[0], "is for --upstream-user, which is not given")
        if self.upstream_user is not None and not given:
            wrong("upstream_user", f"has no password: give --upstream-password-file, or {_PASSWORD_VARIABLE}")
        if len(given) > 1:
            wrong(given[0], f"and {_PASSWORD_VARIABLE} are both given; give one of the two")
        return self

    @model_validator(mode="after")
    def _control_stays_here(self) -> Self:
        for field in ("control_listen", "http_listen", "embedded_etcd_listen"):
            danger = self._danger_beyond_this_machine(field)
            if danger is not None and not getattr(self, field).is_loopback and not self.insecure_control:
                remedy = "" if field == "embedded_etcd_listen" else f"; {SAFE_CONTROL}"
                wrong(field, f"reaches beyond this machine, {danger}{remedy}; --insecure-control allows it anyway")
        return self

    def _danger_beyond_this_machine(self, field: str) -> str | None:
        """What is against letting others reach a port; None where nothing is."""
        if field == "embedded_etcd_listen":
            return "without authentication"
        if self.knows_control_clients:
            return None
        if self.access is None:
            return "without authentication"
        return None if self.control_tls_cert is not None else "with the tokens of --access in plaintext"

    @model_validator(mode="after")
    def _metrics_are_open_anyway(self) -> Self:
        if self.open_metrics and self.access is None:
            wrong("open_metrics", "is for --access, which is not given: everything is open")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Self:
        seen: dict[Address | None, str] = {}
        ports = ("listen", "public_listen", "control_listen", "http_listen", "embedded_etcd_listen", "preview_listen")
        for field in ports:
            address: Address | None = getattr(self, field)
            if address and address.port and address in seen:
                wrong(field, f"is the address of {_option(seen[address])} too")
            seen[address] = field
        return self

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if self.policy is not None and self.gate:
            wrong("policy", "has the gates; --gate is for doing without a policy file")
        if self.policy is None and not self.gate and not self.allow_ungated:
            wrong("policy", f"is not given, nor is a --gate: {NOTHING_IS_HELD}")
        return self

    @property
    def upstream_password_source(self) -> str:
        """Where the password comes from, for people."""
        file = self.upstream_password_file
        return _PASSWORD_VARIABLE if file is None else f"--upstream-password-file '{file}'"

    def read_upstream_password(self) -> str:
        """The password of `upstream_user` as it is at the moment; SettingsError where its file has none."""
        if self.upstream_password_file is None:
            assert self.upstream_password is not None, "a user has a password"
            return self.upstream_password.get_secret_value()
        try:
            return read_password(self.upstream_password_file)
        except ValueError as error:
            raise SettingsError(f"{self.upstream_password_source}: {error}", field="upstream_password_file") from error

    def open_access(self, log: Any) -> AccessInForce | None:
        """The access file, if there is one; SettingsError where it cannot be obeyed."""
        if self.access is None:
            return None
        try:
            return AccessInForce(self.access, log=log)
        except YamlFileError as error:
            raise SettingsError(f"--access '{self.access}': {error}", field="access") from error

    def read_policy(self) -> Policy:
        """The policy of the file or of the gates; SettingsError where there is none to be had."""
        if self.policy is None:
            return gates_for_everything(self.gate)
        try:
            text = read_text(self.policy)
        except PolicyFileError as error:
            raise self.about_the_policy(error) from error
        return self.policy_of(text)

    def about_the_policy(self, error: PolicyFileError) -> SettingsError:
        """The same, said of the file that was given."""
        return SettingsError(f"--policy '{self.policy}': {error}", field="policy")

    def policy_of(self, text: str) -> Policy:
        """The policy that the file's text says; SettingsError where it says none, or none that may be served with."""
        try:
            policy = parse_policy(text)
        except PolicyFileError as error:
            raise self.about_the_policy(error) from error
        if not policy.rules and not self.allow_ungated:
            raise SettingsError(f"--policy '{self.policy}': has no rule: {NOTHING_IS_HELD}", field="policy")
        return policy


def load_settings(given: Mapping[str, object]) -> Settings:
    """Settings from options (by field; None: not given) over GREENROOM_… variables. SettingsError for a wrong one."""
    told = {field: value for field, value in given.items() if value is not None}
    try:
        return Settings(**told)  # type: ignore[arg-type]  # validated by the model, whatever comes
    except ValidationError as error:
        raise _described(error, told) from error


def _described(error: ValidationError, told: Mapping[str, object]) -> SettingsError:
    """One line about the first thing that is wrong, by the name and the text that it was given with."""
    first: Mapping[str, Any] = error.errors(include_url=False)[0]
    field = str(first["loc"][0] if first["loc"] else first["ctx"]["field"])
    name, value = _as_given(field, told)
    message = first["msg"].removeprefix("Value error, ")
    return SettingsError(f"{name}{value}: {message}", field=field)


def _as_given(field: str, told: Mapping[str, object]) -> tuple[str, str]:
    variable = f"{ENV_PREFIX}{field.upper()}"
    if field in BY_VARIABLE_ONLY:
        return variable, ""
    if field in told:
        return _option(field), f" {_quoted(told[field])}"
    if os.environ.get(variable):
        return variable, f" {_quoted(os.environ[variable])}"
    default = Settings.model_fields[field].default
    return _option(field), f" {_quoted(default)}" if isinstance(default, Address) else ""


def _quoted(value: object) -> str:
    listed = value if isinstance(value, (list, tuple)) else (value,)
    return repr(_PASSWORD.sub("//…@", ",".join(map(str, listed))))


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")
