"""How fast Everlearn is beside a plain loop and beside Avalanche; `make bench` runs it, docs/performance.md explains it."""
