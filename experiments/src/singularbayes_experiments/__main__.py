"""`python -m singularbayes_experiments`: the command line, where the folder of scripts is not on the path."""

import sys

from singularbayes_experiments.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
