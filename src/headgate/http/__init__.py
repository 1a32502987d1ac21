"""The service: the same operations over HTTP, for any language.

From the top: `port` listens, `app` joins `routes` and `dashboard`, which use `api` (routes from declarations) and
`access` (callers and their scopes). `service` contains what they share: `waiters`, `limits`, metrics and repeated
requests.
"""

from headgate.core.errors import MissingExtra

try:
    import fastapi  # noqa: F401 - looked for here, once, for all files of the folder
    import jinja2  # noqa: F401 - the same
    import prometheus_client  # noqa: F401 - the same
    import uvicorn  # noqa: F401 - the same
except ImportError as missing:  # pragma: no cover - tests/package runs it in an environment without the extra
    raise MissingExtra("service", f"the service needs {missing.name}") from missing
