"""What samples are: their pictures, their texts, the names of their classes; what a run does not have is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from actionflow.present.pages.page import Shown
from actionflow.session import Session
from actionflow.store import layout
from actionflow.store.reading import StoredRun

# More are not fetched: they would have no room in a page.
MOST_PICTURES = 10_240
# What the texts of all points may take together in a page, and what a text must have to be worth reading.
TEXT_ROOM, SHORTEST, LONGEST = 2_000_000, 60, 600
# The text of a sample in a list.
LONGEST_IN_A_LIST = 400
# How the parts of a text are called where they stand together.
PARTS = (("text", ""), ("context", "beside"), ("target_text", "asked for"))


@dataclass(frozen=True)
class Described:
    """Rows of queries/descriptions.sql for some samples, found by id."""

    table: pa.Table

    @classmethod
    def of(cls, session: Session, run_id: str) -> Described:
        """What is known of the samples of a run's data set."""
        return cls(session.query("descriptions", run_id=run_id))

    def names(self) -> dict[int, str]:
        """What the classes are called."""
        known = self.table.select(["label", "label_name"]).drop_null()
        named = known.group_by("label").aggregate([("label_name", "max")])
        return dict(zip(named["label"].to_pylist(), named["label_name_max"].to_pylist(), strict=True))

    def some(self, sample_ids: Iterable[int]) -> dict[int, dict[str, str]]:
        """The texts of a few samples, by id; those that there are."""
        wanted = self.table.filter(pc.is_in(self.table["sample_id"], pa.array(list(sample_ids), pa.int64())))
        columns = ["sample_id", *(name for name, _ in PARTS)]
        return {
            row.pop("sample_id"): {name: text for name, text in row.items() if text is not None}
            for row in wanted.select(columns).to_pylist()
        }

    def shown(self, sample_ids: Sequence[int]) -> Shown:
        """The samples of points in this order, their texts cut to what has room in a page."""
        rows = self.table.take(pc.index_in(pa.array(sample_ids, pa.int64()), self.table["sample_id"].combine_chunks()))
        longest = max(SHORTEST, min(LONGEST, TEXT_ROOM // max(len(sample_ids), 1)))
        columns = [rows[name].to_pylist() for name, _ in PARTS]
        texts = [_together(parts, longest) for parts in zip(*columns, strict=True)]
        keys = [_key(key, number) for key, number in zip(rows["key"].to_pylist(), sample_ids, strict=True)]
        return Shown(
            sample_ids,
            keys if any(keys) and not any(texts) else [],
            texts if any(texts) else [],
        )


def pictures_of(session: Session, run: StoredRun, sample_ids: Iterable[int]) -> dict[int, bytes]:
    """The stored pictures of samples in this order, as far as a page has room for them."""
    wanted = list(dict.fromkeys(int(each) for each in sample_ids))[:MOST_PICTURES]
    if not wanted:
        return {}
    # Numbers alone: nothing that anybody typed comes into this statement.
    listed = ", ".join(map(str, wanted))
    found = session.sql(
        f"""select sample_id, any_value(image) as image from samples
        where digest = $digest and image is not null and sample_id in ({listed}) group by sample_id""",
        digest=run.run.data.tags.get(layout.TAG_DIGEST, ""),
    )
    known = dict(zip(found["sample_id"].to_pylist(), found["image"].to_pylist(), strict=True))
    return {each: known[each] for each in wanted if each in known}


def cut(text: str, most: int) -> str:
    """The beginning of a text.

    >>> cut("a  long text", 7)
    'a  lon…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def written(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """The parts of a sample's text for a list, each with the word that says what it is."""
    return [(word, cut(texts[name], LONGEST_IN_A_LIST)) for name, word in PARTS if texts.get(name)]


def _together(parts: Sequence[str | None], longest: int) -> str | None:
    """The parts of a sample's text as one, each with its share of the room."""
    there = [(word, text) for (_, word), text in zip(PARTS, parts, strict=True) if text]
    if not there:
        return None
    share = longest // len(there)
    return "\n".join(f"{word}: {cut(text, share)}" if word else cut(text, share) for word, text in there)


def _key(key: str | None, sample_id: int) -> str | None:
    """A picture's key, unless it says no more than the id."""
    return key if key and key != str(sample_id) else None
