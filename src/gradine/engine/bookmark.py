"""How far a pass has come, kept on disk: what is finished is never done again.

Blocks are merged in order, so that a pass is told by how many are merged and by what they came to.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gradine.records import RecordError, check_record, load_record, save_record

__all__ = ["BOOKMARKS", "BOOKMARK_PATTERN", "Bookmark", "Bookmarks"]

BOOKMARKS = "passes"
BOOKMARK_PATTERN = "[0-9][0-9]_*.safetensors"

SHORT = 2.0  # seconds; a pass that takes less is quickly done again, and leaves nothing
OVERHEAD = 0.02  # share of the time that saving may take


class Bookmark:
    """One pass: where it is kept, and the fingerprint of what it depends on."""

    path: Path
    key: str
    kind: type[Any]

    def __init__(self, path: Path, key: str, kind: type[Any], resume: bool) -> None:
        self.path, self.key, self.kind, self._resume = path, key, kind, resume
        self._latest = time.perf_counter()
        self._pause = SHORT

    def load(self, total: int) -> tuple[int, bool, Any] | None:
        """Blocks that were merged of so many, whether the pass had ended, and what they came to."""
        if not self._resume or not self.path.exists():
            return None
        merged = load_record(self.path, self.kind, self.key)
        header = check_record(self.path, self.key)
        blocks = header.get("blocks", "")
        if not blocks.isdecimal() or not 1 <= int(blocks) <= total:
            raise RecordError(f"{self.path}: damaged ({blocks} of {total} blocks)")
        self._pause = 0.0  # it is one of the long ones
        return int(blocks), header.get("ended") == "yes", merged

    def passed(self, blocks: int, merged: Any) -> None:
        """So many blocks are merged: saved now and then, often if that is cheap."""
        if time.perf_counter() - self._latest > self._pause:
            self._save(blocks, merged, ended=False)

    def ended(self, blocks: int, merged: Any) -> None:
        """The pass has ended; others may follow before the phase does."""
        if self._pause != SHORT or time.perf_counter() - self._latest > SHORT:
            self._save(blocks, merged, ended=True)

    def _save(self, blocks: int, merged: Any, ended: bool) -> None:
        began = time.perf_counter()
        extra = {"blocks": str(blocks), "ended": "yes" if ended else "no"}
        save_record(self.path, merged, self.key, extra)
        self._latest = time.perf_counter()
        self._pause = (self._latest - began) / OVERHEAD


class Bookmarks:
    """The passes of a run, numbered within each of its chapters: the phases, and what is between.

    A run that is resumed comes to the same passes in the same order.
    """

    def __init__(self, folder: Path, resume: bool) -> None:
        self._folder, self._resume = folder, resume
        self._chapter, self._key, self._count = "", "", 0

    def begin(self, chapter: str, key: str) -> None:
        """What comes now is part of ``chapter``, and depends on what ``key`` is a digest of."""
        self._chapter, self._key, self._count = chapter, key, 0

    def next(self, kind: type[Any]) -> Bookmark:
        """The bookmark of the next pass, whose blocks are merged to a ``kind``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        path = self._folder / f"{self._chapter}-{self._count:03d}.safetensors"
        return Bookmark(path, self._key, kind, self._resume)

    def forget(self, chapter: str) -> None:
        """Its result is kept elsewhere."""
        for path in self._folder.glob(f"{chapter}-[0-9][0-9][0-9].safetensors"):
            path.unlink(missing_ok=True)
