"""SQuAD's own nested JSON, unfolded to a row per question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from actionflow.training.data.trouble import read_as

NESTED = b'"paragraphs"'
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "title": pa.string(),
        "context": pa.string(),
        "question": pa.string(),
        "answers": pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int64())}),
    }
)


def is_nested(path: Path) -> bool:
    """Whether a file has SQuAD's own form, told by a word that it cannot do without."""
    return path.suffix.lower() == ".json" and NESTED in path.read_bytes()


def read_nested(path: Path) -> pa.Table:
    """The table in a file, in the columns that the hub has; a question that cannot be answered has no answers."""
    with read_as("SQuAD's JSON", path, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        content = json.loads(path.read_text("utf-8-sig"))
        return pa.Table.from_pylist(list(_questions(content["data"])), SCHEMA)


def _questions(articles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = [] if question.get("is_impossible") else question["answers"]
                yield {
                    "id": str(question["id"]),
                    "title": article.get("title", ""),
                    "context": paragraph["context"],
                    "question": question["question"],
                    "answers": {
                        "text": [answer["text"] for answer in answers],
                        "answer_start": [answer["answer_start"] for answer in answers],
                    },
                }
