"""aiflame: AI flame graphs for everyone."""

from aiflame.api import open, record
from aiflame.errors import AiflameError
from aiflame.region import region
from aiflame.version import VERSION as __version__

__all__ = ["AiflameError", "__version__", "open", "record", "region"]
