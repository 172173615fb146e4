"""How fast Everlearn is beside a plain loop and beside Avalanche: `make bench`, explained in docs/performance.md."""
