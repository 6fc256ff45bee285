"""What samples are, as pages show them: their class, their texts, their pictures.

A page shows sixty samples out of any number. Small data sets are read once for a session and looked up in memory;
of large ones a page asks for its own, and has their pictures ready for the browser, which asks for them next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from actionflow.serving.remembering import Lately, once
from actionflow.session import Session

# Texts on a wall are read on the sample's own page.
SHORT_TEXT = 280
# Data sets of up to so many samples and bytes are read once.
SMALL_SAMPLES, SMALL_BYTES = 200_000, 64 * 1024 * 1024
# Of larger ones so much of what pages have just shown is kept; it is small and few.
KEPT_PICTURES, LARGEST_KEPT, KEPT_SAMPLES = 2048, 16 * 1024, 20_000


@dataclass(frozen=True)
class Sample:
    """What a sample is, as far as its data set says: its class, its texts, whether there is a picture of it."""

    sample_id: int
    key: str | None = None
    label_name: str | None = None
    text: str | None = None
    context: str | None = None
    target_text: str | None = None
    has_picture: bool = False


class Album:
    """All samples of a small data set, by id."""

    def __init__(self, samples: pa.Table) -> None:
        ordered = samples.sort_by("sample_id").combine_chunks()
        self._described = ordered.drop_columns("image")
        self._pictures = ordered.select(["image"])
        self._ids = ordered["sample_id"].to_numpy()

    def samples(self, sample_ids: Sequence[int]) -> dict[int, Sample]:
        """Those of these samples that there are."""
        rows = self._described.take(self._places(sample_ids)).to_pylist()
        return {row["sample_id"]: Sample(**row) for row in rows}

    def picture(self, sample_id: int) -> bytes | None:
        """The stored picture of a sample."""
        found = self._pictures.take(self._places([sample_id]))["image"].to_pylist()
        return found[0] if found else None

    def _places(self, sample_ids: Sequence[int]) -> np.ndarray:
        """Where those samples stand that there are."""
        wanted = np.asarray(sample_ids, np.int64)
        places = np.searchsorted(self._ids, wanted)
        there = places < len(self._ids)
        places = places[there]
        found: np.ndarray = places[self._ids[places] == wanted[there]]
        return found


def samples_of(
    session: Session, digest: str, sample_ids: Iterable[int], longest: int = SHORT_TEXT
) -> dict[int, Sample]:
    """What these samples are, by id."""
    wanted = [int(each) for each in sample_ids]
    if longest != SHORT_TEXT:
        return _ask_samples(session, digest, wanted, longest)
    album = _album(session, digest)
    if album is not None:
        return album.samples(wanted)
    described: Lately[Sample] = once(session, "described", lambda: Lately(KEPT_SAMPLES))
    known = {each: sample for each in wanted if (sample := described.get(digest, each)) is not None}
    asked = _ask_samples(session, digest, [each for each in wanted if each not in known], longest)
    for each, sample in asked.items():
        described.keep(digest, each, sample)
    return known | asked


def picture_of(session: Session, digest: str, sample_id: int) -> bytes | None:
    """The stored picture of a sample."""
    album = _album(session, digest)
    if album is not None:
        return album.picture(sample_id)
    lately = _pictures(session).get(digest, sample_id)
    if lately is not None:
        return lately
    rows = session.sql(
        "select image from samples where digest = $digest and sample_id = $sample_id and image is not null limit 1",
        digest=digest,
        sample_id=sample_id,
    ).to_pylist()
    return bytes(rows[0]["image"]) if rows else None


def _album(session: Session, digest: str) -> Album | None:
    """The data set as an album; nothing when it is too large for one."""
    return once(session, ("album", digest), lambda: _read_album(session, digest))


def _read_album(session: Session, digest: str) -> Album | None:
    told = session.sql(
        """select count(*) as samples, sum(coalesce(octet_length(image), 0)) as bytes from samples
        where digest = $digest""",
        digest=digest,
    ).to_pylist()[0]
    if told["samples"] > SMALL_SAMPLES or (told["bytes"] or 0) > SMALL_BYTES:
        return None
    return Album(
        session.sql(
            """select sample_id, key, label_name, left(text, $longest) as text, left(context, $longest) as context,
                left(target_text, $longest) as target_text, image, image is not null as has_picture
            from samples where digest = $digest""",
            digest=digest,
            longest=SHORT_TEXT,
        )
    )


def _ask_samples(session: Session, digest: str, sample_ids: Sequence[int], longest: int) -> dict[int, Sample]:
    # Numbers alone: nothing that anybody typed comes into this statement.
    listed = ", ".join(map(str, sample_ids))
    if not listed or not digest:
        return {}
    rows = session.sql(
        f"""select sample_id, any_value(key) as key, any_value(label_name) as label_name,
            any_value(left(text, $longest)) as text, any_value(left(context, $longest)) as context,
            any_value(left(target_text, $longest)) as target_text, any_value(image) as image
        from samples where digest = $digest and sample_id in ({listed}) group by sample_id""",
        digest=digest,
        longest=longest,
    ).to_pylist()
    return {row["sample_id"]: _sample(_pictures(session), digest, row) for row in rows}


def _pictures(session: Session) -> Lately[bytes]:
    return once(session, "pictures", lambda: Lately(KEPT_PICTURES))


def _sample(pictures: Lately[bytes], digest: str, row: dict[str, Any]) -> Sample:
    image = row.pop("image")
    if image is not None and len(image) <= LARGEST_KEPT:
        pictures.keep(digest, row["sample_id"], image)
    return Sample(**row, has_picture=image is not None)
