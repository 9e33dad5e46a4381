"""Documents that are almost valid: one of a grammar, changed in its values or in its bytes."""

import copy
import json
import random

ODD = (
    *(None, True, False, 0, -1, 1.5, 1e308, 10**18, 2**63, 2**80, float("nan"), float("inf")),
    *("", "x", "\x00", "\ud800", "ÿ", "NaN", "2026-13-45T99:99:99Z", "../../x", "x" * 300),
    *([], {}, [None], [[]], {"": None}, {"a": 1}, ["x", 1], {"message": {"content": "x"}}),
)
_BYTES = (b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b"{", b"]", b",", b"\\u")


class Mangler:
    """Makes documents from a seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def document(self, value):
        """Return the bytes of a value with a few changes."""
        chosen = self._random
        changed = copy.deepcopy(value)
        for _ in range(chosen.choice((0, 1, 1, 1, 2, 3))):
            changed = self._change(changed)
        text = json.dumps(changed, ensure_ascii=chosen.random() < 0.5)
        raw = text.encode(errors="surrogatepass")
        if chosen.random() < 0.05:
            raw = raw.replace(b"null", b"[" * 2_000 + b"]" * 2_000, 1)
        for _ in range(chosen.choice((0, 0, 0, 1, 2))):
            raw = self.torn(raw)
        return raw

    def torn(self, raw):
        """Return bytes with one cut, change, repetition or insertion."""
        chosen = self._random
        start = chosen.randrange(len(raw) + 1)
        end = min(len(raw), start + chosen.choice((0, 1, 1, 5, 40)))
        middle = chosen.choice((b"", raw[start:end] * 2, chosen.choice(_BYTES)))
        return raw[:start] if chosen.random() < 0.15 else raw[:start] + middle + raw[end:]

    def _change(self, value):
        """Replace, drop, rename, wrap or repeat one part of a value."""
        chosen = self._random
        if isinstance(value, dict) and value and chosen.random() < 0.85:
            key = chosen.choice(list(value))
            deed = chosen.random()
            if deed < 0.7:
                value[key] = self._change(value[key])
            elif deed < 0.85:
                del value[key]
            else:
                value[chosen.choice((key.upper(), f"{key}_", ""))] = value.pop(key)
            return value
        if isinstance(value, list) and value and chosen.random() < 0.85:
            place = chosen.randrange(len(value))
            if chosen.random() < 0.8:
                value[place] = self._change(value[place])
            else:
                value.insert(place, copy.deepcopy(value[place]))
            return value
        deed = chosen.random()
        if deed < 0.8:
            return copy.deepcopy(chosen.choice(ODD))
        return [value] if deed < 0.9 else {"x": value}
