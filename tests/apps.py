"""A studio as its author would write it: keys, tokens for its own users, and a site where its public keys are."""

import base64
import json
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from service.cli import main
from tests.server import free_port


class StudioKey:
    """A private key and what it is called."""

    def __init__(self, algorithm: str, kid: str | None, private: Any) -> None:
        self.algorithm, self.kid, self.private = algorithm, kid, private

    @property
    def pem(self) -> bytes:
        """The public key."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def private_pem(self) -> bytes:
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as a JWK."""
        given = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return {name: value for name, value in given.items() if name != "key_ops"} | {"kid": self.kid, "use": "sig"}

    def token(self, app: str, sub: Any = "ann", *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token for a user; claims and headers that are None are left out."""
        now = int(time.time())
        given = {"iss": app, "sub": sub, "aud": "videau", "iat": now, "exp": now + 600} | claims
        payload = {name: value for name, value in given.items() if value is not None}
        heads = {name: value for name, value in ({"kid": self.kid} | (header or {})).items() if value is not None}
        # as libraries of other languages write it, which judge no claim
        return jwt.api_jws.encode(json.dumps(payload).encode(), self.private, self.algorithm, heads)


@cache
def studio_key(algorithm: str, kid: str) -> StudioKey:
    """A key; the same for the same kid."""
    make = {
        "EdDSA": ed25519.Ed25519PrivateKey.generate,
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "RS256": lambda: rsa.generate_private_key(65537, 2048),
    }
    return StudioKey(algorithm, kid, make[algorithm]())


def key_set(keys: Iterable[StudioKey]) -> bytes:
    """A JWK set of the public keys."""
    return json.dumps({"keys": [key.jwk for key in keys]}).encode()


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"signature") -> str:
    """A token of anything."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def videau(database: Path | str, *arguments: str, group: str = "app") -> Result:
    """One run of `videau app …`, or of another group, over a database, here, in a thread without an event loop."""
    url = f"sqlite:///{database}" if isinstance(database, Path) else database
    with ThreadPoolExecutor(1) as thread:
        given = [group, arguments[0], "--database", url, *arguments[1:]]
        return thread.submit(CliRunner().invoke, main, given).result(60)


class Site:
    """An HTTP server with one page, which can change, break, and go down."""

    def __init__(self) -> None:
        self.body, self.status, self.headers = b"", 200, dict[str, str]()
        self.hits = 0
        self.pausing = threading.Event()
        """While it is not set, nothing is answered."""
        self.pausing.set()
        self._port = free_port()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/jwks.json"

    def start(self) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.hits += 1
                site.pausing.wait(30)
                self.send_response(site.status)
                for name, value in site.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(ConnectionError):
                    self.wfile.write(site.body)

            def log_message(self, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Go down, if it is up."""
        self.pausing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
