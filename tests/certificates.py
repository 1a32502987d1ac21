"""Certificates for tests, as files: an authority, and the certificates that it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key; `both` has the two in one file."""

    cert: Path
    key: Path

    @property
    def both(self) -> Path:
        """One file with both, as ZooKeeper reads them."""
        path = self.cert.with_suffix(".both.pem")
        path.write_bytes(self.key.read_bytes() + self.cert.read_bytes())
        return path


class Authority:
    """Signs certificates; its own is `cert`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.cert, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl("req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.cert)

    def sign(self, *names: str, days: int = 2) -> Certificate:
        """A certificate for these host names and addresses. Less than zero days: it has expired."""
        stem = self._folder / f"{names[0].replace(':', '_')}{days}"
        made = Certificate(stem.with_suffix(".pem"), stem.with_suffix(".key"))
        request, more = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        _openssl("req", *_KEY, "-new", "-subj", f"/CN={names[0]}", "-keyout", made.key, "-out", request)
        spelt = (f"{'IP' if name.replace('.', '').isdigit() else 'DNS'}:{name}" for name in names)
        more.write_text(f"subjectAltName={','.join(spelt)}\n")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", str(days), "-extfile", more, "-out", made.cert),
        )
        return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
