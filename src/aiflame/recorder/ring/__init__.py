"""The flight recorder: keeps the last minutes of a recording, and makes a profile of them when something happens."""
