"""The primitives match their published test vectors, and open nothing that was changed."""

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.access.credentials import additional_data
from headgate.service.secrets import crypto
from headgate.service.secrets.sealing import check_of, kek_of

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("kek", "key", "wrapped"),
    [
        (  # RFC 3394, 4.3
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "00112233445566778899AABBCCDDEEFF",
            "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7",
        ),
        (  # RFC 3394, 4.6: the sizes that are used here
            "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
            "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
        ),
    ],
)
def test_keys_are_wrapped_as_in_rfc_3394(kek: str, key: str, wrapped: str) -> None:
    found = crypto.wrap(bytes.fromhex(kek), bytes.fromhex(key))
    assert crypto.from_text(found) == bytes.fromhex(wrapped)
    assert crypto.unwrap(bytes.fromhex(kek), found) == bytes.fromhex(key)


def test_keys_are_derived_as_in_rfc_5869() -> None:
    """Test case 3: no salt and no info, as `derive` has no salt. The library itself with case 1, which has both."""
    expected = bytes.fromhex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")
    assert crypto.derive(bytes.fromhex("0b" * 22), "") == expected
    first = HKDF(
        algorithm=SHA256(), length=42, salt=bytes(range(13)), info=bytes(range(0xF0, 0xFA))
    ).derive(bytes.fromhex("0b" * 22))  # fmt: skip
    assert first.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")


def test_secrets_are_sealed_with_aes_256_gcm() -> None:
    """McGrew and Viega's test case 16 with the library, and a sealed text opened by hand."""
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
        "ba637b39"
    )
    data = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    assert AESGCM(key).encrypt(nonce, plain, data).hex() == (
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
        "bcc9f662" "76fc6ece0f4e1768cddf8853bb2d551b"
    )  # fmt: skip
    sealed = crypto.from_text(crypto.encrypt(KEY, "plain", b"cred/d/n/j/1"))
    assert AESGCM(KEY).decrypt(sealed[:12], sealed[12:], b"cred/d/n/j/1") == b"plain"


def test_the_keys_of_a_job_are_derived_as_documented() -> None:
    """Written out with HKDF: another derivation could not open secrets that older workers sealed."""

    def hkdf(info: bytes) -> bytes:
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(KEY)

    assert kek_of(KEY, "clean") == hkdf(b"job-kek/v1/clean")
    assert crypto.from_text(check_of(KEY, "clean")) == hkdf(b"job-check/v1/clean")
    assert kek_of(KEY, "clean") != kek_of(KEY, "report")
    assert additional_data("raw", "password", "clean", 3) == b"cred/raw/password/clean/3"


def test_a_passphrase_is_stretched_with_argon2id() -> None:
    """The library with the vector of RFC 9106, 5.3; our function with 64 MiB, three passes and four lanes."""
    salt = crypto.to_text(b"0123456789abcdef")
    rfc = Argon2id(
        salt=b"\x02" * 16, length=32, iterations=3, lanes=4, memory_cost=32, ad=b"\x04" * 12, secret=b"\x03" * 8
    ).derive(b"\x01" * 32)
    assert rfc.hex() == "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"
    assert crypto.stretch("correct horse battery", salt) == Argon2id(
        salt=b"0123456789abcdef", length=32, iterations=3, lanes=4, memory_cost=65_536
    ).derive(b"correct horse battery")


def test_no_two_copies_are_equal() -> None:
    """A nonce is never reused, so the same secret never has the same ciphertext."""
    assert len({crypto.encrypt(KEY, "plain", b"x") for _ in range(1000)}) == 1000


@given(st.integers(0, 8 * (12 + 6 + 16) - 1))
def test_a_flipped_bit_anywhere_opens_nothing(bit: int) -> None:
    sealed = bytearray(crypto.from_text(crypto.encrypt(KEY, "secret", b"cred/d/n/j/1")))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidTag):
        crypto.decrypt(KEY, crypto.to_text(bytes(sealed)), b"cred/d/n/j/1")


@given(st.integers(0, 8 * 40 - 1))
def test_a_flipped_bit_in_a_wrapped_key_opens_nothing(bit: int) -> None:
    wrapped = bytearray(crypto.from_text(crypto.wrap(KEY, bytes(32))))
    wrapped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidUnwrap):
        crypto.unwrap(KEY, crypto.to_text(bytes(wrapped)))


@pytest.mark.parametrize("wrong", ["cred/d/n/other/1", "cred/d/n/j/2", "cred/other/n/j/1", "cred/d/other/j/1"])
def test_a_secret_sealed_for_another_place_does_not_decrypt(wrong: str) -> None:
    """Another job, version, dataset or name."""
    sealed = crypto.encrypt(KEY, "secret", b"cred/d/n/j/1")
    with pytest.raises(InvalidTag):
        crypto.decrypt(KEY, sealed, wrong.encode())


def test_a_key_of_another_job_does_not_unwrap() -> None:
    with pytest.raises(InvalidUnwrap):
        crypto.unwrap(kek_of(KEY, "report"), crypto.wrap(kek_of(KEY, "clean"), bytes(32)))


@pytest.mark.parametrize("text", ["", "x", "é", "AAAA", "a" * 41])
def test_malformed_sealed_text_does_not_decrypt(text: str) -> None:
    with pytest.raises(crypto.CANNOT_OPEN):
        crypto.decrypt(KEY, text, b"")
    with pytest.raises(crypto.CANNOT_OPEN):
        crypto.unwrap(KEY, text)
