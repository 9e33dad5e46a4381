"""The blocks of the guide's pages about trainers, which tests run as a user would copy them."""

import ast
import asyncio
import inspect
import re
import shlex
from typing import Any

from genrm_process import PACKAGE_ROOT

GUIDE = PACKAGE_ROOT / "genrm_cli" / "guide"
ADAPTERS = PACKAGE_ROOT / "genrm_cli" / "adapters"
TRAINERS = "trainers"
# Pages for the homes of trainers, beside what they describe.
TRL = "trl"
NEMO_GYM = "nemo_gym/README"
VERL = "verl_recipe/README"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_URL = re.compile(r"http://(localhost|10\.0\.0\.5):8330")


def blocks_of(page: str) -> list[tuple[str, str, str]]:
    """Return the blocks of a page: the section, the language and the text of each."""
    folder = GUIDE if page == TRAINERS else ADAPTERS
    text = (folder / f"{page}.md").read_text(encoding="utf-8")
    return [
        (section.partition("\n")[0].removeprefix("# "), language, block)
        for section in text.split("\n## ")
        for language, block in _BLOCK.findall(section)
    ]


def block(section: str, language: str, url: str, page: str = TRAINERS) -> str:
    """Return the block of a section, with the address of a server."""
    named = (section, language)
    [text] = [text for *found, text in blocks_of(page) if tuple(found) == named]
    return _URL.sub(url, text)


def commands(
    section: str, url: str, page: str = TRAINERS, language: str = "console"
) -> list[list[str]]:
    """Return the words of each command of a section, without the dots that stand for the user's
    own.
    """
    named = (section, language)
    texts = (text for *found, text in blocks_of(page) if tuple(found) == named)
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
