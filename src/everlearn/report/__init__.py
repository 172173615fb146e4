"""Reports from records alone: a page, a text table and the numbers. PyTorch is never imported here."""

from everlearn.records import Event, Record, Run, RunConfig, read
from everlearn.report.page import write
from everlearn.report.tables import summary, table

__all__ = ["Event", "Record", "Run", "RunConfig", "read", "summary", "table", "write"]
