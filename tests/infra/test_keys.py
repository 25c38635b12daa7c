"""The keys of apps: which are taken, and how a URL that has them is asked."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

import infra.keys
from infra.keys import APART_SECONDS, BadKeys, PublishedKeys, check_url, fetch, read_keys, read_published, write_keys
from tests.apps import Site, StudioKey, key_set, studio_key

ALGORITHMS = ("EdDSA", "ES256", "RS256")


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_is_read_from_pem_jwk_and_set_and_a_private_one_gives_its_public_part(algorithm: str) -> None:
    """All the ways to write one key are one key, and what we keep has no private member."""
    key = studio_key(algorithm, "one")
    forms = [key.pem, key.private_pem, json.dumps(key.jwk).encode(), key_set([key])]
    private = json.dumps(key.jwk | {"d": "c2VjcmV0", "p": "cA", "q": "cQ"}).encode()
    read = [read_keys(form)[0] for form in [*forms, private]]
    assert {each.thumbprint for each in read} == {read[0].thumbprint}
    assert {each.algorithm for each in read} == {algorithm}
    assert [each.kid for each in read] == [read[0].thumbprint.decode()] * 2 + ["one"] * 3
    for each in read:
        kept = json.loads(write_keys([each]))["keys"][0]
        assert not set(kept) & {"d", "p", "q", "dp", "dq", "qi", "k"}
        assert read_keys(write_keys([each]).encode())[0].thumbprint == each.thumbprint


def test_the_thumbprint_is_that_of_rfc_7638() -> None:
    """The RFC's own example, 3.1."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhM"
        "stn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5h"
        "ajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    [key] = read_keys(json.dumps({"kty": "RSA", "n": n, "e": "AQAB"}).encode())
    assert key.kid == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def _weak() -> StudioKey:
    return StudioKey("RS256", "weak", rsa.generate_private_key(65537, 1024))


UNUSABLE = {
    "a small RSA key": (lambda: key_set([_weak()]), "an RSA key of 1024 bits; it has 2048 to 8192"),
    "a small RSA key as PEM": (lambda: _weak().pem, "an RSA key of 1024 bits"),
    "another curve": (lambda: StudioKey("ES256", "k", ec.generate_private_key(ec.SECP384R1())).pem, "curve 'P-384'"),
    "another Edwards curve": (lambda: StudioKey("EdDSA", "k", ed448.Ed448PrivateKey.generate()).pem, "Ed448"),
    "a shared secret": (lambda: b'{"kty": "oct", "k": "c2VjcmV0"}', "a key of kind 'oct'"),
    "for another algorithm": (
        lambda: json.dumps(studio_key("RS256", "one").jwk | {"alg": "HS256"}).encode(),
        "for the algorithm 'HS256'; it fits RS256",
    ),
    "for encryption": (lambda: json.dumps(studio_key("RS256", "one").jwk | {"use": "enc"}).encode(), "use is 'enc'"),
    "an empty set": (lambda: b'{"keys": []}', "no key in it"),
    "keys that are no list": (lambda: b'{"keys": 5}', "no JWK set"),
    "a list": (lambda: b"[]", "no JWK set"),
    "keys that are no objects": (lambda: b'{"keys": [5]}', "no JWK set"),
    "nothing": (lambda: b"", "neither PEM nor JSON"),
    "a thousand brackets": (lambda: b"[" * 60_000, "neither PEM nor JSON"),
    "a broken PEM": (
        lambda: b"-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n",
        "a PEM that cannot be read",
    ),
    "a certificate": (
        lambda: b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        "a PEM that cannot be",
    ),
    "a point off the curve": (
        lambda: json.dumps(
            studio_key("ES256", "one").jwk | {"x": base64.urlsafe_b64encode(b"x" * 32).decode()}
        ).encode(),
        "cannot be read",
    ),
    "without its members": (lambda: b'{"kty": "RSA"}', "cannot be read"),
    "members of another type": (lambda: b'{"kty": "EC", "crv": "P-256", "x": 5, "y": []}', "cannot be read"),
    "a kind of another type": (lambda: b'{"kty": ["RSA"]}', "a key of kind ['RSA']"),
    "a kid of another type": (lambda: json.dumps(studio_key("RS256", "one").jwk | {"kid": 5}).encode(), "kid is 5"),
    "a kid with a line": (
        lambda: json.dumps(studio_key("RS256", "one").jwk | {"kid": "a\nb"}).encode(),
        "whose kid is",
    ),
    "two of a kid": (
        lambda: key_set([studio_key("RS256", "one"), studio_key("ES256", "one")]),
        "two keys with the kid",
    ),
    "too many": (lambda: key_set([studio_key("EdDSA", f"{n}") for n in range(21)]), "21 keys; an app has at most 20"),
    "too much": (lambda: b" " * 65_537, "more than 65536 bytes"),
}


@pytest.mark.parametrize(("make", "said"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_can_be_no_key_is_refused_and_it_is_said_why(make, said: str) -> None:
    with pytest.raises(BadKeys) as refused:
        read_keys(make())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_of_a_published_set_what_is_of_use_is_taken() -> None:
    """Sites publish keys for other purposes too; a set with none is the owner's wish."""
    good = studio_key("EdDSA", "good")
    mixed = json.dumps({"keys": [good.jwk, _weak().jwk, {"kty": "oct", "k": "x"}, {}]}).encode()
    assert [key.kid for key in read_published(mixed)] == ["good"]
    assert read_published(b'{"keys": []}') == []
    with pytest.raises(BadKeys, match="no key that can be used"):
        read_published(key_set([_weak()]))
    with pytest.raises(BadKeys, match="no JWK set"):
        read_published(json.dumps(good.jwk).encode())


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("https://app.example/jwks.json", True),
        ("https://app.example:8443/a?b=c", True),
        ("http://127.0.0.1:8001/jwks", True),
        ("http://localhost/jwks", True),
        ("http://app.example/jwks.json", False),
        ("https://", False),
        ("https://app.example:port/", False),
        ("https://[::1/", False),
        ("file:///etc/passwd", False),
        ("ftp://app.example/", False),
        ("app.example/jwks.json", False),
        ("https://app.example/a b", False),
        ("", False),
    ],
)
def test_a_url_of_keys_is_https_or_within_this_machine(url: str, right: bool) -> None:
    with nullcontext() if right else pytest.raises(BadKeys, match="is no URL for keys"):
        check_url(url)


async def test_a_redirect_another_status_and_too_much_are_refused(site: Site) -> None:
    site.body = key_set([studio_key("EdDSA", "one")])
    assert await fetch(site.url) == site.body
    site.status, site.headers = 302, {"location": site.url}
    with pytest.raises(BadKeys, match="it answers with status 302; it is 200, without redirects"):
        await fetch(site.url)
    site.status, site.body = 200, b" " * 10_000_000
    with pytest.raises(BadKeys, match="more than 65536 bytes"):
        await fetch(site.url)
    site.stop()
    with pytest.raises(BadKeys, match="it cannot be reached"):
        await fetch(site.url)


async def test_a_site_that_does_not_answer_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infra.keys, "FETCH_SECONDS", 0.3)
    site.pausing.clear()
    with pytest.raises(BadKeys, match="it has not answered for"):
        await fetch(site.url)


async def test_many_who_ask_at_once_share_one_fetch_and_the_next_comes_after_a_pause(site: Site) -> None:
    """A flood of unknown kids is no flood of fetches."""
    site.body = key_set([studio_key("EdDSA", "one")])
    keys = PublishedKeys(site.url)
    await asyncio.gather(*(keys.read() for _ in range(200)))
    assert (list(keys.keys), site.hits) == (["one"], 1)
    begun = time.monotonic()
    for _ in range(200):
        await keys.read()
    assert site.hits == 1 or time.monotonic() - begun >= APART_SECONDS


async def test_keys_read_before_are_used_while_the_site_is_down_or_broken_and_new_ones_when_it_is_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infra.keys, "APART_SECONDS", 0.0)
    monkeypatch.setattr(infra.keys, "KEPT_SECONDS", 0.0)
    site.body = key_set([studio_key("EdDSA", "one")])
    keys = PublishedKeys(site.url)
    await keys.read()
    site.stop()
    await keys.read()
    assert (list(keys.keys), keys.problem is None) == (["one"], False)
    site.body = b"<html>We will be back soon</html>"
    site.start()
    await keys.read()
    assert (list(keys.keys), keys.problem) == (["one"], "neither PEM nor JSON")
    site.body = key_set([studio_key("EdDSA", "two")])
    keys.renew()
    await keys.read()
    assert (list(keys.keys), keys.problem) == (["two"], None)
    site.body = b'{"keys": []}'
    await keys.read()
    assert (list(keys.keys), keys.problem) == ([], None)
