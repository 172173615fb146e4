"""`python -m everlearn` is the command line."""

from everlearn.cli import main

raise SystemExit(main())
