"""Make the table of look-alikes from Unicode's data file.

    python tests/look_alikes.py confusables.txt > genrm_cli/neutralise/look_alikes.txt

The file is `confusables.txt` of Unicode Technical Standard 39.
"""

import re
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

_ENTRY = re.compile(r"([0-9A-F]+) ;\t([0-9A-F ]+) ;\tMA")
# Found among attacks, but not in Unicode's file, or there as the look-alike of another sign.
MORE = {
    "<": "\u2329\u3008\u27e8\u02c2\u2770",
    ">": "\u232a\u3009\u27e9\u02c3\u2771",
    "[": "\u3010\u3014\u2045\u2985\u298b\u298d\u298f\u2308\u230a\u300c",
    "]": "\u3011\u3015\u2046\u2986\u298c\u298e\u2990\u2309\u230b\u300d",
    "|": "\u2502\u2503\u2758",
    '"': "\u201e",
    "-": "\u2014\u2015\u2500",
    ":": "\u2236",
    "g": "\u0261",
}
HEAD = """\
# ASCII signs and their look-alikes, from confusables.txt of Unicode Technical Standard 39,
# version {version}, by tests/look_alikes.py. A line is a sign and all others that look like it.
# Those that stand for several signs are left out.
#
# Copyright © 1991-{year} Unicode, Inc. Unicode and the Unicode Logo are registered trademarks of
# Unicode, Inc. in the U.S. and other countries. Distributed under the Unicode License
# (https://www.unicode.org/license.txt), which permits use, copying, modification and distribution
# of data files with this notice.
"""


def plain_sign(sign: str, prototype: str) -> str | None:
    """Return the ASCII sign that a reader sees; None for several.

    Unicode has one prototype for all signs that look alike, such as l for l, I, 1 and |.
    """
    digit = unicodedata.decimal(sign, None)
    if digit is not None:
        return str(digit)
    if prototype == "l" and not sign.isalnum():
        return "|"
    if prototype == "l" and unicodedata.category(sign) == "Lu":
        return "I"
    if prototype == "''":
        return '"'
    return prototype if len(prototype) == 1 and prototype.isascii() else None


def main(path: str) -> None:
    """Print the table."""
    text = Path(path).read_text(encoding="utf-8-sig")
    signs: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            sign = chr(int(entry[1], 16))
            prototype = "".join(chr(int(code, 16)) for code in entry[2].split())
            plain = plain_sign(sign, prototype)
            if plain is not None and not sign.isascii() and not sign.isspace():
                signs[plain].add(sign)
    for plain, others in MORE.items():
        for others_of in signs.values():
            others_of.difference_update(others)
        signs[plain].update(others)
    version = re.search(r"Version: ([\d.]+)", text)
    year = re.search(r"© (\d+)", text)
    assert version is not None
    assert year is not None
    sys.stdout.write(HEAD.format(version=version[1], year=year[1]))
    for plain in sorted(signs):
        sys.stdout.write(f"{plain}\t{''.join(sorted(signs[plain]))}\n")


if __name__ == "__main__":
    main(sys.argv[1])
