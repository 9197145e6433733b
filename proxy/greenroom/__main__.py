"""`python -m greenroom`: the command line, where no script of that name is installed."""

import sys

from greenroom.cli.main import main

sys.exit(main())
