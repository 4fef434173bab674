"""`face_of.py PID`: what /proc says of a process that stands still."""

import sys

import face

print(*(line for line in face.seen_from_outside(sys.argv[1]) if not line.startswith("Threads")), sep="\n")
