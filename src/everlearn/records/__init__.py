"""What runs left on disk, typed, checked and grouped: all that diagnostics, figures and pages know. No PyTorch here."""

from everlearn.records.reading import Event, Matrix, Record, Run, RunConfig, read, record_of

__all__ = ["Event", "Matrix", "Record", "Run", "RunConfig", "read", "record_of"]
