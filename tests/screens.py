"""What a terminal shows of what a command has printed."""

from typing import Any

import pyte

# The lines of the longest page of the guide: nothing scrolls away.
_LONG = 4_000


class Shown(pyte.Screen):
    """What a terminal shows in the end, and how it came there.

    Attributes:
        erased: texts that were shown and then erased, such as lines of progress.
        overwritten: lines in which a character was written over another.
        broken: lines that the terminal broke at its edge, each from its beginning.
    """

    def __init__(self, printed: str, width: int) -> None:
        self.erased: list[str] = []
        self.overwritten: list[str] = []
        self.broken: list[str] = []
        super().__init__(width, _LONG)
        pyte.Stream(self).feed(printed)

    @property
    def shown(self) -> list[str]:
        """The lines of the screen, down to the last that was written."""
        return [self._text(number) for number in range(max(self.buffer, default=-1) + 1)]

    def draw(self, data: str) -> None:
        """Write characters, and note what happens to those that are there."""
        for char in data:
            here = self.buffer[self.cursor.y][self.cursor.x].data
            if self.cursor.x == self.columns:
                self.broken.append(self._text(self.cursor.y))
            elif not here.isspace():
                self.overwritten.append(self._text(self.cursor.y))
            super().draw(char)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase a line, and note what it was."""
        self.erased.append(self._text(self.cursor.y))
        super().erase_in_line(how, private)

    def erase_in_display(self, how: int = 0, *arguments: Any, **more: Any) -> None:
        """Refuse to: no command clears the screen of its user."""
        raise AssertionError("the screen was cleared")

    def _text(self, number: int) -> str:
        line = self.buffer[number]
        return "".join(line[column].data for column in range(self.columns)).rstrip()
