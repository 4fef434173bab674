"""The version of aiflame."""

VERSION = "0.1.0"
