"""Memory of programs and devices: the blocks that were allocated, and which of them are live at a moment."""
