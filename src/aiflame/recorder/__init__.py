"""Records a command. Imports only the standard library: it runs on machines without other packages."""

from aiflame.recorder.options import RecordOptions, parse_counters, parse_sampling, parse_size
from aiflame.recorder.place import ProfileLocation, place_of, rank_here
from aiflame.recorder.run import Recording, run
from aiflame.recorder.supervise import leave_as

__all__ = [
    "ProfileLocation",
    "RecordOptions",
    "Recording",
    "leave_as",
    "parse_counters",
    "parse_sampling",
    "parse_size",
    "place_of",
    "rank_here",
    "run",
]
