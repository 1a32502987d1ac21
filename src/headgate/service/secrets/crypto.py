"""The primitives for sealing secrets, all from the library `cryptography`.

AES-256-GCM for secrets, AES key wrap (RFC 3394) for their keys, HKDF-SHA256 (RFC 5869) to derive keys from keys,
argon2id to derive keys from passphrases. Importing this is slow: it is imported where secrets are used.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from headgate.core.errors import MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap
except ImportError as missing:  # pragma: no cover - the extra is installed in tests
    raise MissingExtra("secrets", "secrets need the library cryptography") from missing

#: The errors for a wrong key or a changed byte.
CANNOT_OPEN = (InvalidTag, InvalidUnwrap)
KEY_BYTES = 32
NONCE_BYTES = 12
SALT_BYTES = 16
#: argon2id: 64 MiB, three passes, four lanes (RFC 9106, second recommendation).
PASSES, LANES, KIBIBYTES = 3, 4, 65_536


def random_key() -> bytes:
    """32 random bytes."""
    return os.urandom(KEY_BYTES)


def random_salt() -> str:
    """A salt for a passphrase."""
    return to_text(os.urandom(SALT_BYTES))


def derive(key: bytes, info: str) -> bytes:
    """A key derived from another one, for one purpose."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info.encode()).derive(key)


def stretch(passphrase: str, salt: str) -> bytes:
    """A key derived from a passphrase; slow on purpose."""
    return Argon2id(
        salt=from_text(salt), length=KEY_BYTES, iterations=PASSES, lanes=LANES, memory_cost=KIBIBYTES
    ).derive(passphrase.encode())


def wrap(kek: bytes, key: bytes) -> str:
    """A key that is encrypted with another one."""
    return to_text(aes_key_wrap(kek, key))


def unwrap(kek: bytes, wrapped: str) -> bytes:
    """The key again; InvalidUnwrap under any other one."""
    return aes_key_unwrap(kek, from_text(wrapped))


def encrypt(key: bytes, plain: str, additional_data: bytes) -> str:
    """A secret under a key that seals nothing else, bound to its context."""
    nonce = os.urandom(NONCE_BYTES)
    return to_text(nonce + AESGCM(key).encrypt(nonce, plain.encode(), additional_data))


def decrypt(key: bytes, sealed: str, additional_data: bytes) -> str:
    """The secret again; InvalidTag when anything was changed."""
    content = from_text(sealed)
    if len(content) < NONCE_BYTES:
        raise InvalidTag
    return AESGCM(key).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], additional_data).decode()


def to_text(content: bytes) -> str:
    """Bytes as letters that need no quotes anywhere."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """The bytes again; InvalidTag for an invalid text."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise InvalidTag from None
