"""The blocks of the guide's page about trainers, which tests run as a user would copy them."""

import ast
import asyncio
import inspect
import re
import shlex
from typing import Any

from genrm_process import PACKAGE_ROOT

_PAGE = (PACKAGE_ROOT / "genrm_cli" / "guide" / "trainers.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_URL = re.compile(r"http://(localhost|10\.0\.0\.5):8330")
BLOCKS = [
    (section.partition("\n")[0].removeprefix("# "), language, text)
    for section in _PAGE.split("\n## ")
    for language, text in _BLOCK.findall(section)
]


def block(trainer: str, language: str, url: str) -> str:
    """Return the block of a trainer's section, with the address of a server."""
    [text] = [
        text for section, written, text in BLOCKS if (section, written) == (trainer, language)
    ]
    return _URL.sub(url, text)


def commands(trainer: str, url: str) -> list[list[str]]:
    """Return the words of each command of a section, without the dots that stand for the user's
    own.
    """
    texts = (
        text for section, language, text in BLOCKS if (section, language) == (trainer, "console")
    )
    lines = _URL.sub(url, "".join(texts)).replace("\\\n", "").splitlines()
    return [
        [word for word in shlex.split(line.removeprefix("$ ")) if word != "..."] for line in lines
    ]


def run_python(text: str, **names: Any) -> dict[str, Any]:
    """Run a block of Python with these names, as a notebook would; return all names."""
    names["__name__"] = "pasted"
    returned = eval(compile(text, "trainers.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(returned):
        asyncio.run(returned)
    return names
