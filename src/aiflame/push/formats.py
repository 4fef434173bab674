"""A profile as the body that a receiver gets: OTLP's request for profiles, or pprof with the query of Pyroscope's `/ingest`.

Of the command only the program's name is sent, and nothing of its environment.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from dataclasses import replace
from urllib.parse import urlencode

from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CALL_LINE
from aiflame.attribute.prefixes import BY_CODE_AND_MEANING
from aiflame.attribute.stacks.process_frames import short_command
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.trees.build import default_metric, metrics, tree, tree_with_meaning
from aiflame.attribute.trees.rank_groups import ranks_by_name
from aiflame.exchange.writers import otlp, pprof
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.labelled import Labelled, labelled, together, without_limits
from aiflame.push.destination import OTLP, Destination
from aiflame.push.queue import Body
from aiflame.version import VERSION

_NO_NAME = re.compile(r"[^A-Za-z0-9_./-]+")
"""Pyroscope takes no others in a service name, and has no quotes for labels."""


def body_of(profile: Profile, destination: Destination) -> Body:
    """The same profile gives the same body. AiflameError if nothing was recorded."""
    store = Analysis(profile.store)
    first = default_metric(store)
    names = sorted(metrics(store), key=lambda name: name != first)
    if not names:
        tree(store)  # the error says why
    trees = [hide_interpreter_noise(tree_with_meaning(store, name, BY_CODE_AND_MEANING, CALL_LINE)) for name in names]
    of = labelled(without_limits(together(trees)), ranks_by_name(store))
    program = short_command("\0".join(profile.meta.command), "")
    facts = replace(Facts.of(profile.meta), command=(program,))
    labels = _labels(profile, facts, destination)
    return _otlp(of, facts, labels, first, profile) if destination.format == OTLP else _pprof(of, facts, labels, first, profile)


def _labels(profile: Profile, facts: Facts, destination: Destination) -> dict[str, str | int]:
    rank = profile.meta.job_rank
    kept = profile.meta.kept
    named = {
        name for table in ("kernel_shapes", "copies") for name in profile.store.scan(table).select("device").unique().collect()["device"]
    }
    return {
        "service": destination.service or re.sub(r"\.py$", "", facts.command[0].removeprefix("-m ")) or "program",
        "host": facts.host,
        "device": ", ".join(sorted(named)),
        "cause": kept.cause if kept is not None else "",
        **({"rank": rank.rank} if rank is not None else {}),
    }


_OTLP_KEYS = {"service": "service.name", "host": "host.name", "device": "aiflame.device", "cause": "aiflame.cause", "rank": "aiflame.rank"}


def _otlp(of: Labelled, facts: Facts, labels: dict[str, str | int], first: str, profile: Profile) -> Body:
    file = io.BytesIO()
    resource = {
        **{_OTLP_KEYS[name]: value for name, value in labels.items()},
        "process.executable.name": facts.command[0],
        "aiflame.notes": "\n".join(facts.notes),
        "telemetry.sdk.name": "aiflame",
        "telemetry.sdk.version": VERSION,
    }
    otlp.write(of, facts, first, file, resource)
    data = file.getvalue()
    return Body(_id(data), gzip.compress(data, 6, mtime=0), "application/x-protobuf", "gzip", "", profile.path.name)


def _pprof(of: Labelled, facts: Facts, labels: dict[str, str | int], first: str, profile: Profile) -> Body:
    file = io.BytesIO()
    rate = profile.meta.options.get("cpu_rate")
    pprof.write(of, facts, first, file, 10**9 // rate if isinstance(rate, int) and rate > 0 else 1)
    data = file.getvalue()
    own = ",".join(f"{name}={_plain(value)}" for name, value in labels.items() if name not in ("service", "cause") and value != "")
    query = {"name": f"{_plain(labels['service'])}{{{own}}}", "format": "pprof", "spyName": "aiflame"}
    if facts.began_ns:
        begin = facts.began_ns // 10**9
        query |= {"from": str(begin), "until": str(max(-(-(facts.began_ns + facts.took_ns) // 10**9), begin + 1))}
    asked = urlencode(query)
    return Body(_id(data + asked.encode()), data, "application/octet-stream", "", asked, profile.path.name)


def _plain(value: object) -> str:
    return _NO_NAME.sub("_", str(value)).strip("_") or "unknown"


def _id(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
