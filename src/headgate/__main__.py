"""`python -m headgate` is the command."""

import sys

from headgate.cli.main import main

sys.exit(main())
