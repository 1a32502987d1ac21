"""`python -m benchmarks.http_single up …`: Headgate whose service makes one call to a SQLite file at a time, so that no
two calls share a commit.
"""

from __future__ import annotations

from headgate.cli.main import main
from headgate.stores.sql.dialects.sqlite.dialect import Sqlite

if __name__ == "__main__":
    Sqlite.side_by_side = 1
    main()
