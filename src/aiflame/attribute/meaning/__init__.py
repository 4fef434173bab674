"""Assigns a step, phase, layer, op and region to each launch, captured graph node, traced call and CPU sample: `context` is the way in."""
