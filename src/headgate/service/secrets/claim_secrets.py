"""The secrets of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.core.ledger.model import Port
from headgate.core.values.redaction import MASKED
from headgate.service.secrets.use_cases import Opened, Secrets


def with_secrets(
    secrets: Secrets, job: str, ports: Mapping[str, Port], opened: Opened | None, key: str | None
) -> dict[str, Port]:
    """The ports of a claim with their secrets opened with the key, or masked."""
    if not any(port.secrets for port in ports.values()):
        return dict(ports)
    if opened is None:
        sealed = secrets.sealed(job)
        return {
            name: replace(port, secrets=dict.fromkeys(port.secrets, MASKED), sealed=sealed.get(name, {}))
            for name, port in ports.items()
        }
    if any(port.secrets != opened.versions.get(name) for name, port in ports.items()):
        # They were set again since they were opened.
        opened = secrets.open(job, secrets.key(key))
    return with_opened(ports, opened)


def with_opened(ports: Mapping[str, Port], opened: Opened) -> dict[str, Port]:
    """The ports with these secrets. Secrets that the job may not hold stay masked."""
    masked = {name: dict.fromkeys(port.secrets, MASKED) for name, port in ports.items()}
    texts = {name: {**masked[name], **opened.plain.get(name, {})} for name in ports}
    return {name: replace(port, secrets=texts[name], sealed={}) for name, port in ports.items()}
