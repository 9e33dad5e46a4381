"""What a page of `genrm report` holds."""

import base64
import gzip
import json
import re
from typing import Any


def unpacked(page: str, name: str) -> Any:
    """Return the data of an inert block of a page."""
    found = re.search(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))
