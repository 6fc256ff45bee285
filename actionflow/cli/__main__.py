"""`python -m actionflow.cli` is `actionflow`."""

from actionflow.cli import main

main()
