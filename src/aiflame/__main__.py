"""`python -m aiflame`: the command `aiflame`."""

import sys

from aiflame.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
