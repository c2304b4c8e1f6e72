"""The server's log on standard error: a line for each event, as text or as a JSON object."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from datetime import UTC, datetime

from rowlock_regionserver.process_limits import detail_of

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """Makes a line of JSON: `time` (UTC, RFC 3339), `level`, `logger`, `message`, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def begin_log(level: str, log_format: str) -> None:
    """Sends records of this level and above to standard error, one of LEVELS and of FORMATS."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def reason_of(error: Exception) -> str:
    """Returns the message of an error. An OSError of the system gives its file and the reason, without the number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"the process lacks memory{detail_of(error)}"
    return str(error)


def say_error(message: str, log_format: str) -> None:
    """Says in one line why the command ends. At any level of the log, and safe after a failure of logging itself."""
    line = f"rowlock-server: {' '.join(message.split())}"
    if log_format == "json":
        record = logging.LogRecord("rowlock_regionserver", logging.ERROR, "", 0, "%s", (line,), None)
        line = JsonFormatter().format(record)
    with contextlib.suppress(OSError):
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))
