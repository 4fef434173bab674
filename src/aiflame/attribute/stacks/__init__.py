"""The stacks of a profile as functions, lines and instructions, under the frames of their processes and threads."""
