"""`python -m singularbayes`: the command line, where the folder of scripts is not on the path."""

import sys

from singularbayes.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
