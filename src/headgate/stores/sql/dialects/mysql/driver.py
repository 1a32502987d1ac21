"""The driver library for MariaDB and MySQL. Without it: MissingExtra."""

from headgate.core.errors import MissingExtra

try:
    import pymysql as pymysql  # noqa: PLC0414 - others import it from here
    import pymysql.cursors  # noqa: F401 - an attribute of it from now on
except ImportError as missing:  # pragma: no cover - the extra is installed in tests
    raise MissingExtra("mysql", "MariaDB and MySQL need the library PyMySQL") from missing
