"""Reports from records alone: a page, a text table and the numbers. PyTorch is never imported here."""

from everlearn.records import Config, Event, Record, Run, read
from everlearn.report.page import write
from everlearn.report.tables import summary, table

__all__ = ["Config", "Event", "Record", "Run", "read", "summary", "table", "write"]
