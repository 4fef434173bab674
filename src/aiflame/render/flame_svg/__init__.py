"""The flame graph as one SVG file."""
