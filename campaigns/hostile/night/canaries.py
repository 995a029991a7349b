"""Canaries: a value of its own in every secret of a deployment, and the search for them wherever something is shown."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PLACES = (
    "smtp", "sendgrid", "webhook", "github", "teams", "google-chat", "pagerduty", "opsgenie", "mlflow", "warehouse",
    "variable", "jwt", "session", "documents", "environment",
)  # fmt: skip
"""Where a canary sits: the passwords of connections, a variable, the keys of settings, the environment."""
CANARIES = {place: f"canary+{place}/{zlib.crc32(place.encode()):08x}==x" for place in PLACES}
"""Letters that encodings change are part of each, so that what is searched is not only the plain text."""
FERNET = Fernet.generate_key().decode()
GOOGLE_KEY = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
"""The key of a service account."""


def environment(connections: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the environment of an Airflow with a canary in every secret, and these connections."""
    return {
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(content) for name, content in connections.items()},
        "AIRFLOW_VAR_SENDGRID_API_KEY": CANARIES["variable"],
        "AIRFLOW__API_AUTH__JWT_SECRET": CANARIES["jwt"],
        "AIRFLOW__API__SECRET_KEY": CANARIES["session"],
        "AIRFLOW__CORE__FERNET_KEY": FERNET,
        "AIRFLOW__ML_METRICS__DOCUMENTS_KEY": CANARIES["documents"],
        "SOME_SERVICE_TOKEN": CANARIES["environment"],
    }


def forms(secret: str) -> frozenset[str]:
    """Return a secret as it may appear: plain, quoted for an address or for JSON, in base64, in hexadecimal."""
    plain = secret.encode()
    found = {
        secret,
        *(quote(secret, safe=kept) for kept in ("", "/", "+")),
        json.dumps(secret)[1:-1],
        plain.hex(),
        repr(plain)[2:-1],
    }
    for offset in range(3):
        # at each place in a longer text; the letters at both ends depend on the neighbours
        encoded = base64.b64encode(b"\0" * offset + plain)[4 if offset else 0 : -4].decode()
        found |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return frozenset(found)


SEARCHED = {
    form: place
    for place, value in {**CANARIES, "fernet": FERNET, "google": GOOGLE_KEY.splitlines()[9]}.items()
    for form in forms(value)
}
PATTERN = re.compile("|".join(map(re.escape, sorted(SEARCHED, key=len, reverse=True))))


AIRFLOWS_OWN = re.compile(r"^.*\bmsg=MaskSecret\(value=.*$", re.MULTILINE)
"""At level DEBUG, Airflow logs the request by which a task asks it to mask a secret. SECURITY.md says so."""


def seen_in(name: str, text: str) -> Iterator[str]:
    """Yield which canaries a text shows, with what is around them."""
    text = AIRFLOWS_OWN.sub("", text)
    for match in PATTERN.finditer(text):
        around = text[max(0, match.start() - 80) : match.end() + 20]
        yield f"{name}: the canary of {SEARCHED[match[0]]}: {around!r}"


def seen_below(folder: Path, *, apart_from: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the canaries in all files below a folder, and in their names."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.name in apart_from:
            continue
        name = str(path.relative_to(folder))
        yield from seen_in(f"the name {name}", name)
        yield from seen_in(name, path.read_bytes().decode(errors="replace"))
