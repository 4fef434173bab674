"""Recording a command. Imports the standard library alone: it runs on machines that have nothing else."""

from aiflame.recorder.options import RecordOptions, parse_sampling, parse_size
from aiflame.recorder.place import ProfileLocation, place_of, rank_here
from aiflame.recorder.run import Recording, run
from aiflame.recorder.supervise import leave_as

__all__ = ["ProfileLocation", "RecordOptions", "Recording", "leave_as", "parse_sampling", "parse_size", "place_of", "rank_here", "run"]
