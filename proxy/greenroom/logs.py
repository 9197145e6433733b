"""How events are logged: structlog, one line an event, to standard error. Keys yes, values of keys never.

The rule: whatever a worker or a check calls itself, a line stays a line, and no terminal obeys it. Who logs never fails
by it: whatever reads standard error may end before us.
"""

import io
import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from greenroom.settings import LogFormat, LogLevel


def configure_logs(level: LogLevel, log_format: LogFormat) -> None:
    """Called once, before the first event. Python's own logging (of libraries) goes the same way, from WARNING on."""
    least = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_common(), *_rendering(log_format)],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(log_format)],
            foreign_pre_chain=_common(),
        )
    )
    logging.basicConfig(handlers=[handler], level=max(least, logging.WARNING), force=True)


class _Unfailing(io.TextIOBase):
    """A stream to write to. What cannot be written is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _common() -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _keys_as_text,
    ]


def _rendering(log_format: LogFormat) -> list[structlog.typing.Processor]:
    if log_format is LogFormat.JSON:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(),
        pad_event_to=0,
        pad_level=False,
        sort_keys=False,
        # The default shows local variables, and among them cards and clients' tokens.
        exception_formatter=structlog.dev.plain_traceback,
    )
    return [_printable, renderer]


def _keys_as_text(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """etcd's keys are bytes, mostly readable ones."""
    for name, value in event.items():
        if isinstance(value, bytes):
            event[name] = value.decode("utf-8", "backslashreplace")
    return event


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Texts for people, with what a terminal would obey spelled out; JSON does that by itself."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value)
    return event
