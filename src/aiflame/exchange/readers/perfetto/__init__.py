"""Perfetto's protobuf traces: of aiflame itself, Chromium, THAPI's iprof, rocprofv3, and programs with Perfetto's SDK."""
