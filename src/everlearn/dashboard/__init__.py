"""A page that follows runs as they learn, from records and events alone. PyTorch is never imported here."""

from everlearn.dashboard.server import make_app, serve

__all__ = ["make_app", "serve"]
