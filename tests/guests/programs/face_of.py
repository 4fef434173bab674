"""`face_of.py PID`: the entries in /proc of a process that stands still."""

import sys

import face

print(*(line for line in face.settled(int(sys.argv[1])) if not line.startswith("Threads")), sep="\n")
