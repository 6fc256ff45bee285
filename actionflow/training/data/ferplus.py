"""FER+: the faces of FER 2013, row by row with the ten votes that people gave each of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from actionflow.errors import DataError
from actionflow.training.data.dataset import Images, Integers, Samples
from actionflow.training.data.forms import Contents, Form, Trace, subfolders, trace_files
from actionflow.training.data.known_sets import KNOWN_SETS, KnownSet, plain
from actionflow.training.data.trouble import read_as

FACES, JUDGEMENTS = "fer2013.csv", "fer2013new.csv"
VOTES = (*KNOWN_SETS["ferplus"].class_names, "unknown", "NF")  # NF: not a face
UNKNOWN = VOTES.index("unknown")
# The public test rows are FER+'s validation part; here a validation part is drawn from the training part, if at all.
USAGES = {"train": "Training", "test": "PrivateTest"}
LEFT_ASIDE = "PublicTest"
# Text parsed at a time: a row of 2,304 numbers takes some 40 kB while it is parsed.
ROWS_AT_A_TIME = 1000


def trace(place: Path, known: KnownSet) -> Trace:
    """Look for the two files."""
    return trace_files({name: _find(place, name, known) for name in (JUDGEMENTS, FACES)})


def read(place: Path, known: KnownSet) -> Contents:
    """Read the faces whose majority sees an emotion; an id is a row of the files, whatever is dropped."""
    faces_file, votes_file = (path for path in (_find(place, name, known) for name in (FACES, JUDGEMENTS)) if path)
    faces = _csv(faces_file, "FER's table of pixels", ["pixels", "Usage"])
    judged = _csv(votes_file, "FER+'s table of votes", ["Usage", "Image name", *VOTES])
    _check_row_by_row(faces_file, faces, votes_file, judged)
    votes = _votes(votes_file, judged)
    winners, usage = majority(votes), judged["Usage"].to_numpy()
    # FER+ took away the names of pictures that are no faces at all.
    kept = (winners < len(known.class_names)) & (judged["Image name"].to_numpy() != "")

    def part(name: str) -> Samples:
        rows = np.flatnonzero(kept & (usage == USAGES[name]))
        return Samples(
            sample_ids=rows,
            images=_pixels(faces_file, faces["pixels"], rows, known),
            labels=winners[rows],
            keys=judged["Image name"].take(rows).to_pylist(),
            metadata={f"votes_{vote.lower()}": votes[rows, place] for place, vote in enumerate(VOTES)},
        )

    public = usage == LEFT_ASIDE
    left_aside = [f"{public.sum()} {LEFT_ASIDE} rows", f"{(~kept & ~public).sum()} rows without a majority"]
    return Contents({"train": part("train"), "test": part("test")}, left_aside)


FORM = Form(trace, read)


def majority(votes: Integers) -> Integers:
    """FER+'s own rule: lone votes do not count, and more than half of the others must agree; else it is unknown."""
    counted = np.where(votes > 1, votes, 0)
    agreed = 2 * counted.max(axis=1) > counted.sum(axis=1)
    return np.where(agreed, counted.argmax(axis=1), UNKNOWN)


def _find(place: Path, name: str, known: KnownSet) -> Path | None:
    """The two files come from two places, so they may lie in folders of their own."""
    folders = [place, *(folder for folder in subfolders(place) if plain(folder.name) in known.folders)]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _csv(file: Path, kind: str, columns: list[str]) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()))
    with read_as(kind, file, OSError, pa.ArrowException):
        return pyarrow.csv.read_csv(file, convert_options=options)


def _check_row_by_row(faces_file: Path, faces: pa.Table, votes_file: Path, judged: pa.Table) -> None:
    if len(faces) != len(judged):
        raise DataError(
            f"{faces_file} has {len(faces)} rows but {votes_file} has {len(judged)}: put whole copies of both in place."
        )
    one, other = faces["Usage"].to_numpy(), judged["Usage"].to_numpy()
    different = np.flatnonzero(one != other)
    if len(different):
        row = different[0]
        raise DataError(
            f"Row {row} is {one[row]} in {faces_file} but {other[row]} in {votes_file}: put copies in place whose rows "
            "belong together."
        )


def _votes(file: Path, judged: pa.Table) -> Integers:
    columns = []
    for vote in VOTES:
        wrong = np.flatnonzero(~pc.ascii_is_decimal(judged[vote]).to_numpy())
        if len(wrong):
            raise DataError(
                f"{file}, row {wrong[0]}, has no number of votes for {vote}: put a whole copy in its place."
            )
        columns.append(judged[vote].cast(pa.int64()).to_numpy())
    return np.column_stack(columns)


def _pixels(file: Path, texts: pa.ChunkedArray, rows: Integers, known: KnownSet) -> Images:
    images = np.empty((len(rows), known.channels, *known.size), np.uint8)
    for begin in range(0, len(rows), ROWS_AT_A_TIME):
        some = rows[begin : begin + ROWS_AT_A_TIME]
        images[begin : begin + len(some)] = _parsed(file, texts.take(some), some, known)
    return images


def _parsed(file: Path, texts: pa.ChunkedArray, rows: Integers, known: KnownSet) -> Images:
    """Numbers out of texts by Arrow, all at once; only when that fails is the bad row looked for."""
    expected = known.side * known.side
    words = pc.split_pattern(texts, " ")
    if pc.all(pc.equal(pc.list_value_length(words), expected)).as_py():
        try:
            pixels: Images = pc.list_flatten(words).cast(pa.uint8()).to_numpy()
            return pixels.reshape(-1, known.channels, *known.size)
        except pa.ArrowInvalid:
            pass
    problems = ((row, _problem(text, expected)) for row, text in zip(rows, texts.to_pylist(), strict=True))
    row, problem = next((row, problem) for row, problem in problems if problem)
    raise DataError(f"{file}, row {row}, {problem}: put a whole copy in its place.")


def _problem(text: str, expected: int) -> str:
    words = text.split(" ") if text else []
    strange = [word for word in words if not word.isdecimal()]
    if strange:
        return f"has {strange[0][:20]!r} instead of {expected} numbers"
    if len(words) != expected:
        return f"has {len(words)} pixels instead of {expected}"
    return "has a pixel outside 0 to 255" if max(map(int, words)) > 255 else ""
