"""Default sampling for families whose authors did not publish any."""

from collections.abc import Mapping
from types import MappingProxyType

GREEDY: Mapping[str, object] = MappingProxyType({"temperature": 0.0, "max_tokens": 8192})
"""For judges that answer like chat models, with enough tokens for long analyses."""

THINKING: Mapping[str, object] = MappingProxyType({"temperature": 0.6, "top_p": 0.95, "max_tokens": 16384})
"""For judges that think first: greedy thinking tends to loop, and most of the tokens are thoughts."""
