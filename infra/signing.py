"""The server's signature under a finished log's head: what stands under it cannot be forged anew from the start."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct


class Head(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a log: its match, its last number and that record's hash."""

    hash: str
    match: str
    seq: int

    @property
    def signed_bytes(self) -> bytes:
        """What is signed: `videau head MATCH SEQ HASH`."""
        return f"videau head {self.match} {self.seq} {self.hash}".encode()


class Signer:
    """Signs heads with the server's newest key (Ed25519)."""

    def __init__(self, seed: str, *older: str) -> None:
        """The keys of these seeds, newest first: 32 bytes each, in hexadecimal."""
        keys = [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(each)) for each in (seed, *older)]
        self._key = keys[0]
        self.public_keys = [key.public_key().public_bytes_raw().hex() for key in keys]
        self.public_key = self.public_keys[0]

    def sign(self, head: Head) -> str:
        """The signature of a head, in hexadecimal."""
        return self._key.sign(head.signed_bytes).hex()


def is_signed(head: Head, public_key: str, signature: str) -> bool:
    """Whether the owner of `public_key` signed this head; both in hexadecimal."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), head.signed_bytes)
    except (InvalidSignature, ValueError):
        return False
    return True
