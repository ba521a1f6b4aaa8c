"""How fast it is, beside its peers: ``python -m tests.speed``."""
