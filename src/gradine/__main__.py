"""`python -m gradine` is the command line."""

import sys

from gradine.cli import main

if __name__ == "__main__":
    sys.exit(main())
