"""The public keys of apps: as PEM, JWK or JWK set (RFC 7517), from a file or from a URL of the app's own."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

logger = logging.getLogger("videau")

ALGORITHMS = ("EdDSA", "ES256", "RS256")
"""What apps may sign with."""

RSA_BITS = (2048, 8192)
"""The sizes of RSA keys that are taken: smaller ones are weak, larger ones slow."""

KEY_BYTES = 65_536
"""What a file of keys, or the answer of a URL, may have."""

MOST_KEYS = 20
"""The keys that one app may have at a time, in our hands or at its URL."""

LONGEST_KID = 200

FETCH_SECONDS = 5.0
"""How long a URL may take to give all of its keys."""

KEPT_SECONDS = 300.0
"""How long keys from a URL are used before they are read again."""

APART_SECONDS = 5.0
"""A URL is not read again sooner than this, whatever is asked for."""

_MEMBERS = {"OKP": ("crv", "x"), "EC": ("crv", "x", "y"), "RSA": ("n", "e")}
"""The public members of a JWK, by its kind; a private part is never kept."""

_FITTING = {("OKP", "Ed25519"): "EdDSA", ("EC", "P-256"): "ES256", ("RSA", None): "RS256"}


class BadKeys(Exception):
    """What was given, or found at a URL, cannot be used as keys; the message says why."""


class AppKey:
    """A public key of an app, which fits one algorithm."""

    __slots__ = ("algorithm", "jwk", "key", "kid", "thumbprint")

    def __init__(self, given: dict[str, Any]) -> None:
        """The key of a JWK; a private one gives its public part. Raises BadKeys."""
        kind, curve = given.get("kty"), given.get("crv")
        fitting = _FITTING.get((kind, curve)) if isinstance(kind, str) and isinstance(curve, str | None) else None
        if fitting is None:
            raise BadKeys(f"a key of kind {_short(kind)}, curve {_short(curve)}; it is Ed25519, P-256 or RSA")
        if given.get("alg", fitting) not in (fitting, "Ed25519" if fitting == "EdDSA" else fitting):
            raise BadKeys(f"a key of kind {kind} for the algorithm {_short(given['alg'])}; it fits {fitting}")
        if given.get("use", "sig") != "sig":
            raise BadKeys(f"a key whose use is {_short(given['use'])}; it is 'sig'")
        public = {"kty": kind} | {name: given.get(name) for name in _MEMBERS[str(kind)]}
        try:
            self.key = jwt.PyJWK(public, fitting)
            self.jwk = _jwk(self.key.key)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, UnsupportedAlgorithm) as error:
            raise BadKeys(f"a key that cannot be read: {error}") from error
        if isinstance(self.key.key, rsa.RSAPublicKey) and not RSA_BITS[0] <= self.key.key.key_size <= RSA_BITS[1]:
            raise BadKeys(f"an RSA key of {self.key.key.key_size} bits; it has {RSA_BITS[0]} to {RSA_BITS[1]}")
        self.algorithm = fitting
        self.thumbprint = base64url_encode(hashlib.sha256(msgspec.json.encode(self.jwk, order="sorted")).digest())
        """What stands for the key, whatever it is called (RFC 7638)."""
        kid = given.get("kid", self.thumbprint.decode())
        if not isinstance(kid, str) or not 1 <= len(kid) <= LONGEST_KID or not kid.isprintable():
            raise BadKeys(f"a key whose kid is {_short(kid)}; it is 1 to {LONGEST_KID} printable characters")
        self.kid = kid
        """What tokens call it: as its owner does, else its thumbprint."""


def read_keys(data: bytes) -> list[AppKey]:
    """The keys of a file: PEM, a JWK, or a JWK set. Raises BadKeys if there is none, or one cannot be used."""
    if len(data) > KEY_BYTES:
        raise BadKeys(f"more than {KEY_BYTES} bytes")
    if b"-----BEGIN" in data:
        return [AppKey(_read_pem(data))]
    given = _decode(data)
    keys = [AppKey(each) for each in given.get("keys", [given])]
    return check_set(keys)


def check_set(keys: list[AppKey]) -> list[AppKey]:
    """The keys, if they can be those of one app: some, not too many, each with a kid of its own. Raises BadKeys."""
    if not keys:
        raise BadKeys("no key in it")
    if len(keys) > MOST_KEYS:
        raise BadKeys(f"{len(keys)} keys; an app has at most {MOST_KEYS} at a time")
    kids = [key.kid for key in keys]
    if twice := next((kid for kid in kids if kids.count(kid) > 1), None):
        raise BadKeys(f"two keys with the kid {twice!r}; each has one of its own")
    return keys


def read_published(data: bytes) -> list[AppKey]:
    """The keys of a set that an app publishes, where some may be of no use to us. Raises BadKeys if it is no set."""
    given = _decode(data)
    if "keys" not in given:
        raise BadKeys("no JWK set: there is no `keys` in it")
    keys: dict[str, AppKey] = {}
    for each in given["keys"][:MOST_KEYS]:
        try:
            key = AppKey(each)
        except BadKeys as error:
            logger.info("a published key is passed over: %s", error)
        else:
            keys.setdefault(key.kid, key)
    if given["keys"] and not keys:
        raise BadKeys(f"no key that can be used: it is Ed25519, P-256, or RSA of {RSA_BITS[0]} to {RSA_BITS[1]} bits")
    return list(keys.values())


def write_keys(keys: Iterable[AppKey]) -> str:
    """The keys as a JWK set, with nothing but their public parts."""
    return msgspec.json.encode({"keys": [key.jwk | {"kid": key.kid} for key in keys]}).decode()


def check_url(url: str) -> None:
    """Raises BadKeys for what can be no URL of keys: those are https, or http within this machine."""
    try:
        parts = urlsplit(url)
        right = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        right = False
    inside = right and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not right or parts.scheme not in ("https", *(["http"] if inside else [])):
        raise BadKeys(
            f"{url[:100]!r} is no URL for keys; it is like https://app.example/jwks.json (http: this machine)"
        )


async def fetch(url: str) -> bytes:
    """What is at a URL: no redirect is followed, and neither time nor size are without end. Raises BadKeys."""
    import httpx2  # here, since only those who have such apps need it

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            # in a thread, since it reads the certificates that are trusted
            client = await asyncio.to_thread(httpx2.AsyncClient, timeout=FETCH_SECONDS, follow_redirects=False)
            headers = {"accept": "application/jwk-set+json, application/json", "accept-encoding": "identity"}
            async with client, client.stream("GET", url, headers=headers) as response:
                if response.status_code != 200:
                    raise BadKeys(f"it answers with status {response.status_code}; it is 200, without redirects")
                data = bytearray()
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > KEY_BYTES:
                        raise BadKeys(f"it has more than {KEY_BYTES} bytes")
                return bytes(data)
    except TimeoutError as error:
        raise BadKeys(f"it has not answered for {FETCH_SECONDS:.0f} seconds") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise BadKeys(f"it cannot be reached: {str(error) or type(error).__name__}") from error


class PublishedKeys:
    """The keys at a URL as they were last read. They are read again when they are old, and for one that is not there;
    never by two at once, and never without a pause. While that fails, those that were read before are used."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, AppKey] = {}
        self.problem: str | None = None
        """Why they could not be read when that was last tried; None if they could."""
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def renew(self) -> None:
        """Begin to read them again, if they are old; does not wait."""
        if time.monotonic() - self._read_at > KEPT_SECONDS:
            self._begin()

    async def read(self) -> None:
        """Read them, or wait for whoever does already; nothing if it was tried a moment ago."""
        self._begin()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _begin(self) -> None:
        if self._reading is None and time.monotonic() - self._tried_at >= APART_SECONDS:
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            self.keys = {key.kid: key for key in read_published(await fetch(self.url))}
            self._read_at, self.problem = time.monotonic(), None
        except BadKeys as error:
            self.problem = str(error)
            logger.warning("the keys at %s cannot be read now: %s", self.url, error)
        finally:
            self._tried_at = time.monotonic()
            self._reading = None


def _decode(data: bytes) -> dict[str, Any]:
    """A JWK, or a JWK set whose members are objects."""
    try:
        given = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadKeys("neither PEM nor JSON") from error
    keys: Sequence[Any] = given.get("keys", []) if isinstance(given, dict) else [None]
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise BadKeys("no JWK set: that is an object with `keys`, a list of objects")
    return dict(given)


def _read_pem(data: bytes) -> dict[str, Any]:
    """The public key in a PEM, also of a private one, as a JWK."""
    try:
        key = load_pem_private_key(data, None).public_key() if b"PRIVATE KEY" in data else load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKeys(f"a PEM that cannot be read: {str(error).splitlines()[0]}; give the public key") from error
    return _jwk(key)


def _jwk(key: object) -> dict[str, Any]:
    """The public members of a key's JWK."""
    match key:
        case rsa.RSAPublicKey():
            given = RSAAlgorithm.to_jwk(key, as_dict=True)
        case ec.EllipticCurvePublicKey():
            given = ECAlgorithm.to_jwk(key, as_dict=True)
        case ed25519.Ed25519PublicKey():
            given = OKPAlgorithm.to_jwk(key, as_dict=True)
        case _:
            raise BadKeys(f"a key of another kind ({type(key).__name__}); it is Ed25519, P-256 or RSA")
    return {name: given[name] for name in ("kty", *_MEMBERS[given["kty"]])}


def _short(given: object) -> str:
    return repr(given)[:40]
