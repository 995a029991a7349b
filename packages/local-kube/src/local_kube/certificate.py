"""The server's certificate, which is needed even on loopback because kubectl sends its token over TLS only.

An authority of the cluster's own, which only its kubeconfig names, signs a certificate for 127.0.0.1.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local_kube.json_files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

LIFETIME = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of the server's certificate and of the authority that signed it."""

    server: Path
    """Key and certificate, in one file."""
    authority: Path

    @classmethod
    def below(cls, root: Path) -> Certificate:
        """Return the certificate of a cluster, and create it if it is missing or expires soon."""
        certificate = cls(root / "server.pem", root / "authority.pem")
        if not certificate.is_valid():
            authority, server = _create()
            replace_file(certificate.server, server)
            replace_file(certificate.authority, authority)
        return certificate

    def is_valid(self) -> bool:
        """Return whether both files can be used for now."""
        try:
            server = x509.load_pem_x509_certificate(self.server.read_bytes())
            server.verify_directly_issued_by(x509.load_pem_x509_certificate(self.authority.read_bytes()))
        except (OSError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            return False  # new files are created
        return server.not_valid_after_utc > datetime.now(UTC) + RENEW_BEFORE


def _create() -> tuple[bytes, bytes]:
    """Return a new authority, and the key and certificate of a server."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("local-kube authority")
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    authority = (
        _draft(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        _draft(_name("local-kube"), issuer, server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), key + server.public_bytes(pem)


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    encryption = ("key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only")
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        **dict.fromkeys(encryption, False),
    )
