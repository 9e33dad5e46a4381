"""The folder beside a page that is too large for one file: a script for each block of groups."""

import contextlib
import hashlib
from pathlib import Path

from genrm_cli.errors import UsageError
from genrm_cli.report.page.blocks import Blocks
from genrm_cli.report.page.render_page import block_script
from genrm_cli.storage.location import S3Options, is_s3
from genrm_cli.storage.sink import is_streamed, make_folder, open_sink

_DIGEST_BYTES = 6


class BlockFolder:
    """Blocks as files named after their content, so that an earlier page keeps its own until it is replaced.

    Attributes:
        name: of the folder, beside the page.
        prefix: of the files, `<prefix><number>.js`, as the page names them.
    """

    def __init__(self, target: str, blocks: Blocks, *, overwrite: bool) -> None:
        """Choose the place.

        Raises:
            UsageError: the page does not go to a local file, or the folder exists.
        """
        if is_s3(target) or is_streamed(target):
            raise UsageError("the report is larger than --max-size; write it to a local file, or raise --max-size.")
        self.name = f"{Path(target).name.removesuffix('.html')}_files"
        self._path = Path(target).parent / self.name
        if self._path.exists() and not overwrite:
            raise UsageError(f"{self._path} exists; pass --force to replace it, or choose another output")
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for block in blocks:
            digest.update(block)
        self.prefix = f"block-{digest.hexdigest()}-"
        self._blocks = blocks
        self._written: list[Path] = []

    def write(self, s3: S3Options, mode: int) -> None:
        """Write the blocks; the page that names them must follow.

        Raises:
            StorageError: a file cannot be written.
        """
        for number, block in enumerate(self._blocks):
            path = self._path / f"{self.prefix}{number}.js"
            if path.exists():
                continue  # an earlier report of the same content
            make_folder(str(path))
            self._written.append(path)
            sink = open_sink(str(path), s3, overwrite=True, mode=mode)
            try:
                sink.write(block_script(number, block))
                sink.commit()
            finally:
                sink.abort()

    def remove_earlier(self) -> None:
        """Remove the blocks of earlier pages; other files are left alone."""
        with contextlib.suppress(OSError):  # they take up room, nothing worse
            for path in self._path.glob("block-*.js"):
                if not path.name.startswith(self.prefix):
                    path.unlink()

    def discard(self) -> None:
        """Remove what was written for a page that did not appear."""
        with contextlib.suppress(OSError):
            for path in self._written:
                path.unlink(missing_ok=True)
            self._path.rmdir()  # unless it holds anything else
