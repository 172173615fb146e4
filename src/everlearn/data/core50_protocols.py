"""CORe50's protocols by name, and what the readers of their official orders give."""

from typing import NamedTuple

from everlearn.data.source import Array

RUNS = 10


class Protocol(NamedTuple):
    """A protocol: its number of batches, its folder of file lists, its key in the pickles."""

    batches: int
    lists: str
    key: str


PROTOCOLS = {
    "nc": Protocol(9, "NC_inc", "nc"),
    "ni": Protocol(8, "NI_inc", "ni"),
    "nic": Protocol(79, "NIC_inc", "nic"),
    "nicv2-79": Protocol(79, "NIC_v2_79", "nicv2_79"),
    "nicv2-196": Protocol(196, "NIC_v2_196", "nicv2_196"),
    "nicv2-391": Protocol(391, "NIC_v2_391", "nicv2_391"),
}
"""Protocols by name; 25x2 is cut from nc."""

Lists = list[tuple[str, Array]]
"""The frames of each batch, with the name of the list that says so."""
