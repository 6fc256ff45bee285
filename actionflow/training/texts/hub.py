"""The Hugging Face hub: asked once, quietly, and given up at once where there is no network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from actionflow.training.data.download import told_on_terminals_only
from actionflow.training.data.trouble import one_line
from actionflow.training.texts.known_texts import KnownTexts
from actionflow.training.texts.part_files import PART_OF, PARTS, part_word
from actionflow.training.texts.rows import Rows

PATIENCE = 5  # seconds in which the hub has to answer


class HubError(Exception):
    """Why a data set could not be had from the hub, in one line."""


def hub_rows(known: KnownTexts) -> tuple[list[Rows], list[str]]:
    """The parts of a data set from the hub or from what was kept of it here, and the names of those left aside."""
    tables = _tables(known)
    words = {name: part_word(name) for name in tables}
    rows = [_rows(known, word, tables[name]) for name, word in words.items() if word]
    order = list(PARTS)
    return sorted(rows, key=lambda each: order.index(each.part)), [name for name, word in words.items() if not word]


@contextmanager
def soon_given_up() -> Iterator[bool]:
    """Take only what is kept on this machine if the hub does not answer; says whether it does.

    The hub's libraries would try again and again for half a minute per file.
    """
    from datasets import config
    from huggingface_hub import constants

    reachable = _reachable()
    before = constants.HF_HUB_OFFLINE, config.HF_HUB_OFFLINE
    if not reachable:
        constants.HF_HUB_OFFLINE = config.HF_HUB_OFFLINE = True
    try:
        yield reachable
    finally:
        constants.HF_HUB_OFFLINE, config.HF_HUB_OFFLINE = before


def _reachable() -> bool:
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # whatever a connection, a proxy or the hub's own offline mode raises
        return False
    return True


def _tables(known: KnownTexts) -> dict[str, pa.Table]:
    import datasets

    with soon_given_up() as reachable, told_on_terminals_only(), _only_errors_logged():
        try:
            parts = datasets.load_dataset(*known.hub)
        except Exception as error:  # datasets passes on whatever its libraries raise
            offline = "there is no network, and it was not kept here before"
            raise HubError(one_line(error) if reachable else offline) from error
    return {name: _table(part) for name, part in parts.items()}


def _table(part: Any) -> pa.Table:
    """A part's rows; its features, which name the classes, travel in the schema as in a Parquet file."""
    table = part.with_format("arrow")[:]
    return table.replace_schema_metadata(part.features.arrow_schema.metadata)


def _rows(known: KnownTexts, word: str, table: pa.Table) -> Rows:
    return Rows(PART_OF[word], word, table, ((f"{known.hub[0]}, {word}", table.num_rows),))


@contextmanager
def _only_errors_logged() -> Iterator[None]:
    from datasets.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
