"""One kernel taken apart: its launches, its source lines and instructions, and the files that it was compiled from."""
