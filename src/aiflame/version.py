"""The version of aiflame."""

VERSION = "0.2.0"
