"""Files of traces: plain or gzip, bounded, with errors that name file, line and column.

Nothing here trusts the file: sizes are bounded before memory is taken, and every way a file can be damaged (cut short,
not text, wrong columns, negative, not finite, too large) ends in one clear message.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NoReturn

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_workload.model import MAX_TIME_S

__all__ = ["MAX_ROW_COUNT", "MAX_TEXT_BYTES", "Table", "is_number", "read_table", "read_text", "refuse"]

FloatArray = npt.NDArray[np.float64]

MAX_TEXT_BYTES: Final = 1 << 30
"""Longest text that is read, unpacked (1 GiB): a small file must not unpack to all of memory."""
MAX_ROW_COUNT: Final = 5_000_000
"""Most rows that are read."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_CHUNK_BYTES: Final = 1 << 20
_SHOWN_CHARACTERS: Final = 40


def refuse(path: Path, what: str, *, line: int | None = None, column: int | None = None, field: str = "") -> NoReturn:
    """Raise InvalidRequest about a place in a file.

    Args:
        path: The file.
        what: What is wrong and what would be right.
        line: Line from 1, if known.
        column: Column from 1 (a field of a table, a character of other texts), if known.
        field: Name of the column, if it has one.
    """
    place = str(path)
    if line is not None:
        place += f", line {line}"
    if column is not None:
        place += f", column {column}"
    if field:
        place += f" ({field})"
    raise InvalidRequest(f"{place}: {what}")


def read_text(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a plain or gzip file (told apart by its first bytes, not by its name).

    Raises:
        InvalidRequest: It is not there, cannot be read, is damaged, too long, or no UTF-8 text.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            data = _read_bounded(path, gzip.GzipFile(fileobj=raw) if packed else raw, max_bytes)
    except FileNotFoundError as cause:
        raise InvalidRequest(f"{path}: there is no such file") from cause
    except EOFError as cause:
        raise InvalidRequest(f"{path}: the gzip data ends too early; the file was cut short, copy it again") from cause
    except (gzip.BadGzipFile, zlib.error) as cause:
        raise InvalidRequest(f"{path}: the gzip data is damaged ({cause}); copy the file again") from cause
    except OSError as cause:
        raise InvalidRequest(f"{path}: cannot be read ({cause.strerror or cause})") from cause
    if b"\x00" in data:
        at = data.index(b"\x00")
        refuse(path, "this is binary data, not a text", line=data.count(b"\n", 0, at) + 1, column=_column(data, at))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        at = cause.start
        line = data.count(b"\n", 0, at) + 1
        refuse(path, f"byte 0x{data[at]:02x} is no UTF-8 text", line=line, column=_column(data, at))


def _column(data: bytes, at: int) -> int:
    """Return the column from 1 of a byte in its line."""
    return at - data.rfind(b"\n", 0, at)


def _read_bounded(path: Path, stream: IO[bytes] | gzip.GzipFile, max_bytes: int) -> bytes:
    """Return all bytes of a stream, or refuse once there are more than `max_bytes`."""
    chunks: list[bytes] = []
    total = 0
    while chunk := stream.read(_CHUNK_BYTES):
        chunks.append(chunk)
        total += len(chunk)
        if total > max_bytes:
            refuse(path, f"the text is longer than {max_bytes} bytes; split the file")
    return b"".join(chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A comma-separated file with a header, column by column."""

    path: Path
    """The file, for messages."""
    header: tuple[str, ...]
    """Names of the columns as they stand in the file."""
    columns: dict[str, list[str]]
    """Texts by column name; equally long."""
    lines: list[int]
    """Line of each row, from 1."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lines)

    def refuse(self, row: int, name: str, what: str) -> NoReturn:
        """Raise InvalidRequest about one field."""
        refuse(self.path, what, line=self.lines[row], column=self.header.index(name) + 1, field=name)

    def numbers(
        self, name: str, *, low: float = 0.0, high: float = MAX_TIME_S, whole: bool = False, blank: float | None = None
    ) -> FloatArray:
        """Return a column as numbers.

        Args:
            name: Column.
            low: Smallest number allowed.
            high: Largest number allowed.
            whole: Only whole numbers.
            blank: What an empty field means; None refuses it.

        Raises:
            InvalidRequest: A field is something else; the message names line and column.
        """
        texts = self.columns[name]
        if blank is not None:
            texts = [text if text.strip() else repr(blank) for text in texts]
        try:
            values = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
            bad = ~((values >= low) & (values <= high))
            if whole:
                bad |= values != np.floor(values)
            if blank is not None and math.isnan(blank):
                bad &= np.array([bool(text.strip()) for text in self.columns[name]])
            rows = np.flatnonzero(bad)
        except ValueError:
            rows = np.flatnonzero([not is_number(text) for text in texts])
        if len(rows) or any("_" in text for text in texts):
            row = int(rows[0]) if len(rows) else next(i for i, text in enumerate(texts) if "_" in text)
            kind = "a whole number" if whole else "a number"
            what = f"{self.columns[name][row][:_SHOWN_CHARACTERS]!r} is not {kind} from {low:g} to {high:g}"
            self.refuse(row, name, what)
        return values


def is_number(text: str) -> bool:
    """Return whether `float` takes the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_table(path: Path, *, required: Iterable[str], optional: Iterable[str] = (), text: str | None = None) -> Table:
    """Return the named columns of a comma-separated file with a header.

    Args:
        path: Plain or gzip file.
        required: Columns that must be there.
        optional: Columns to read if they are there.
        text: The file's text, if it was read already.

    Raises:
        InvalidRequest: The file or a column is missing, or a row has another number of fields than the header.
    """
    content = read_text(path) if text is None else text
    reader = csv.reader(content.splitlines(), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = tuple(name.strip() for name in next(reader, []))
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                what = f"{len(row)} fields, but the header has {len(header)}: {','.join(header)[:200]}"
                refuse(path, what, line=reader.line_num, column=min(len(row), len(header)) + 1)
            rows.append(row)
            lines.append(reader.line_num)
            if len(rows) > MAX_ROW_COUNT:
                refuse(path, f"more than {MAX_ROW_COUNT} rows; split the file", line=reader.line_num)
    except csv.Error as cause:
        refuse(path, f"not comma-separated values ({cause})", line=reader.line_num)
    missing = [name for name in required if name not in header]
    if missing:
        refuse(path, f"column {', '.join(missing)} is missing; the header has {','.join(header)[:200]}", line=1)
    if not rows:
        refuse(path, "there are no rows below the header", line=2)
    columns = list(zip(*rows, strict=True))
    wanted = [name for name in (*required, *optional) if name in header]
    return Table(
        path=path, header=header, columns={name: list(columns[header.index(name)]) for name in wanted}, lines=lines
    )
