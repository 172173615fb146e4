"""What runs left on disk, typed, checked and grouped: all that diagnostics, figures and pages know. No PyTorch here."""

from everlearn.records.reading import Config, Event, Matrix, Record, Run, read, record_of

__all__ = ["Config", "Event", "Matrix", "Record", "Run", "read", "record_of"]
