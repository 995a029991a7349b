"""The options of PostgreSQL's client library in the extra of an Airflow connection.

All of them are passed on: an option that got lost, such as `sslmode`, would send the password in clear.
"""

from __future__ import annotations

import json

from ml_metrics.errors import ConfigError

OPTIONS = frozenset({
    "application_name", "channel_binding", "connect_timeout", "fallback_application_name", "gssdelegation",
    "gssencmode", "gsslib", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval",
    "krbsrvname", "load_balance_hosts", "options", "passfile", "require_auth", "requirepeer",
    "ssl_max_protocol_version", "ssl_min_protocol_version",
    "sslcert", "sslcertmode", "sslcompression", "sslcrl", "sslcrldir", "sslkey", "sslmode",
    "sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout",
})  # fmt: skip
"""Those of libpq 17 that are about the connection. Address, login and database are fields of the connection."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def libpq_options(conn_id: str, extra: str | None) -> dict[str, str]:
    """Return the options in the extra of a connection, a JSON object.

    Raises:
        ConfigError: the extra is no object, or has an option that libpq does not know or a value that is none: a
            connection that is not as written is not opened at all.
    """
    where = f"connection `{conn_id}`"
    try:
        found = json.loads(extra) if extra and extra.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f'{where}: its extra should be a JSON object such as {{"sslmode": "verify-full"}}')
    for name, value in found.items():
        if name not in OPTIONS:
            raise ConfigError(
                f"{where}: {name!r} in its extra is not an option of PostgreSQL's client library, so that it would "
                f"have no effect. Remove it, or correct its name: {', '.join(sorted(OPTIONS))}"
            )
        if not isinstance(value, str | int) or "\0" in str(value):
            raise ConfigError(f"{where}: {name!r} in its extra should be a text or a whole number")
    options = {name: str(int(value) if isinstance(value, bool) else value) for name, value in found.items()}
    if options.get("sslmode", SSL_MODES[0]) not in SSL_MODES:
        raise ConfigError(f"{where}: `sslmode` in its extra should be one of {', '.join(SSL_MODES)}")
    return options
