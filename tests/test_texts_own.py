"""The user's own texts: tables as people have them."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from actionflow.errors import DataError, SettingsError
from actionflow.training.texts import OwnColumns, load_texts

REVIEWS = {
    "text": ['good, "really" good', "bad\nvery bad", "fine", "awful", "good", "good"],
    "label": ["pos", "neg", "pos", "neg", "pos", "neg"],
    "stars": [5, 1, 4, 1, 5, 2],
}

REVIEWS_DIGEST = "4f0ec9728b9e247b"


def write_csv(path, columns, delimiter=","):
    csv.write_csv(pa.table(columns), path, csv.WriteOptions(delimiter=delimiter))


def write_json_lines(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS = {
    "csv": write_csv,
    "tsv": lambda path, columns: write_csv(path, columns, "\t"),
    "jsonl": write_json_lines,
    "parquet": lambda path, columns: pq.write_table(pa.table(columns), path),
}


def load(path, **columns):
    return load_texts("text", own=OwnColumns(str(path), **columns))


def both(dataset, pick):
    """One column over all parts, in the order of the ids."""
    parts = dataset.parts.values()
    pairs = [pair for part in parts for pair in zip(part.sample_ids.tolist(), pick(part), strict=True)]
    return [value for _, value in sorted(pairs, key=lambda pair: pair[0])]


@pytest.mark.parametrize("kind", WRITERS)
def test_one_file_in_any_form_gives_the_same_data_set(tmp_path, kind):
    path = tmp_path / f"reviews.{kind}"
    WRITERS[kind](path, REVIEWS)
    dataset = load(path)
    assert (dataset.name, dataset.task, dataset.class_names) == ("text", "classification", ("neg", "pos"))
    assert both(dataset, lambda part: part.columns["text"]) == REVIEWS["text"]
    assert both(dataset, lambda part: part.labels.tolist()) == [1, 0, 1, 0, 1, 0]
    assert both(dataset, lambda part: part.metadata["stars"].tolist()) == REVIEWS["stars"]
    assert both(dataset, lambda part: part.keys) == [f"reviews/{row}" for row in range(6)]
    assert dataset.source == f"{path}; a fixed fifth of reviews is held out as test"
    assert dataset.digest == REVIEWS_DIGEST


def test_duplicate_texts_stay_apart(tmp_path):
    write_csv(tmp_path / "same.csv", {"text": ["same"] * 10, "label": ["a", "b"] * 5})
    assert sum(map(len, load(tmp_path / "same.csv").parts.values())) == 10


def test_part_files_in_a_folder_are_the_parts(tmp_path):
    for part, count in {"train": 4, "dev": 2, "test": 2}.items():
        write_csv(
            tmp_path / f"{part}.csv",
            {"text": [f"{part} {n}" for n in range(count)], "label": ["a", "b"] * (count // 2)},
        )
    write_csv(tmp_path / "extra.csv", {"text": ["x"], "label": ["a"]})
    dataset = load(tmp_path)
    ids = {part: samples.sample_ids.tolist() for part, samples in dataset.parts.items()}
    assert ids == {"train": [0, 1, 2, 3], "validation": [4, 5], "test": [6, 7]}
    assert dataset.source == f"{tmp_path}; left aside: extra.csv"


def test_columns_have_the_names_that_the_user_gives(tmp_path):
    columns = {"claim": ["c1", "c2", "c3", "c4"], "proof": list("wxyz"), "verdict": [1, 0, 1, 0], "label": list("abcd")}
    write_csv(tmp_path / "facts.csv", columns)
    dataset = load(tmp_path / "facts.csv", text="claim", context="proof", label="verdict")
    assert dataset.class_names == ("0", "1")
    assert both(dataset, lambda part: part.columns["context"]) == list("wxyz")
    assert dataset.parts["train"].metadata == {}, "a column that is called like one of a run's own cannot be kept"
    assert "left aside: column label of facts" in dataset.source


def test_a_target_column_makes_it_text_to_text(tmp_path):
    columns = {"article": [f"a{n}" for n in range(5)], "headline": [f"h{n}" for n in range(5)], "source": list("vwxyz")}
    write_json_lines(tmp_path / "news.jsonl", columns)
    dataset = load(tmp_path / "news.jsonl", text="article", target="headline")
    assert (dataset.task, dataset.class_names) == ("text-to-text", ())
    assert both(dataset, lambda part: part.columns["target_text"]) == [f"h{n}" for n in range(5)]
    assert both(dataset, lambda part: part.labels.tolist()) == [-1] * 5
    assert both(dataset, lambda part: part.metadata["source"]) == list("vwxyz")
    assert len(dataset.parts["test"]) == 1


def test_numbers_are_sorted_as_numbers(tmp_path):
    write_csv(tmp_path / "t.csv", {"text": list("abcdef"), "label": [10, 9, 100] * 2})
    assert load(tmp_path / "t.csv").class_names == ("9", "10", "100")


def test_whole_numbers_saved_with_a_point_are_whole_numbers(tmp_path):
    pq.write_table(pa.table({"text": list("abcd"), "label": [1.0, 0.0, 1.0, 0.0]}), tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").class_names == ("0", "1")


def test_texts_and_labels_may_be_saved_as_categories(tmp_path):
    columns = {"text": pa.array(list("abcd"), pa.large_string()), "label": pa.array(list("xyxy")).dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    dataset = load(tmp_path / "t.parquet")
    assert dataset.class_names == ("x", "y")
    assert both(dataset, lambda part: part.columns["text"]) == list("abcd")


def test_texts_that_look_like_numbers_or_dates_stay_as_written(tmp_path):
    columns = {"text": ["2020-01-01", "2021-02-03", "2020-01-01", "2021-02-03"], "label": ["007", "1", "1", "007"]}
    for kind in ("csv", "jsonl"):
        WRITERS[kind](tmp_path / f"t.{kind}", columns)
        dataset = load(tmp_path / f"t.{kind}")
        assert both(dataset, lambda part: part.columns["text"]) == columns["text"]
        assert dataset.class_names == ("1", "007")


@pytest.mark.parametrize("name", ["id", "key", "sample_id"])
def test_an_id_column_names_the_samples(tmp_path, name):
    write_csv(tmp_path / "t.csv", {name: [11, 12, 13, 14], "text": list("abcd"), "label": [0, 1, 0, 1]})
    dataset = load(tmp_path / "t.csv")
    assert both(dataset, lambda part: part.keys) == ["11", "12", "13", "14"]
    assert both(dataset, lambda part: part.sample_ids.tolist()) == [0, 1, 2, 3]


def test_an_id_that_two_samples_share_names_neither_and_is_kept(tmp_path):
    write_csv(tmp_path / "t.csv", {"id": [1, 1, 2, 2], "text": list("abcd"), "label": [0, 1, 0, 1]})
    dataset = load(tmp_path / "t.csv")
    assert both(dataset, lambda part: part.keys) == ["t/0", "t/1", "t/2", "t/3"]
    assert both(dataset, lambda part: part.metadata["id"]) == ["1", "1", "2", "2"]


def test_empty_texts_are_counted_and_keep_their_numbers_unused(tmp_path):
    write_csv(tmp_path / "t.csv", {"text": ["a", "", "  ", "b", "c", "d"], "label": [0, 1, 5, 1, 0, 1]})
    dataset = load(tmp_path / "t.csv")
    assert both(dataset, lambda part: part.sample_ids.tolist()) == [0, 3, 4, 5]
    assert dataset.class_names == ("0", "1"), "a class of which no text is left is none"
    assert "left aside: 2 rows of t without a text" in dataset.source


def test_nothing_but_empty_texts_is_refused(tmp_path):
    write_csv(tmp_path / "t.csv", {"text": ["", " "], "label": [0, 1]})
    with pytest.raises(DataError, match=r"t\.csv has no row that can be used \(2 rows of t without a text\)"):
        load(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text": "review"}, r"no column review \(found: text, label, stars\): type -P text_column=<one of them>"),
        ({"context": "premise"}, r"no column premise .*type -P context_column=<"),
        ({"label": "sentiment"}, r"no column sentiment .*type -P label_column=<"),
        ({"target": "summary"}, r"no column summary .*type -P target_column=<"),
    ],
)
def test_a_missing_column_is_told_with_those_that_exist(tmp_path, columns, said):
    write_csv(tmp_path / "t.csv", REVIEWS)
    with pytest.raises(DataError, match=said):
        load(tmp_path / "t.csv", **columns)


def test_a_missing_label_is_told_with_its_row(tmp_path):
    write_json_lines(tmp_path / "t.jsonl", {"text": list("abc"), "label": ["x", None, "x"]})
    with pytest.raises(DataError, match=r"t\.jsonl, row 1, has no label: label it or leave the row out"):
        load(tmp_path / "t.jsonl")


def test_fractions_are_no_classes(tmp_path):
    write_csv(tmp_path / "t.csv", {"text": list("ab"), "label": [0.25, 1.0]})
    with pytest.raises(DataError, match=r"t\.csv has the label 0\.25, which is neither a name nor a whole number"):
        load(tmp_path / "t.csv")


def test_a_class_that_is_tested_but_never_trained_is_named(tmp_path):
    write_csv(tmp_path / "train.csv", {"text": list("ab"), "label": ["x", "y"]})
    write_csv(tmp_path / "test.csv", {"text": list("c"), "label": ["z"]})
    with pytest.raises(DataError, match="has test texts of z but no training texts"):
        load(tmp_path)


def test_one_class_is_left_to_the_training_to_refuse(tmp_path):
    write_csv(tmp_path / "t.csv", {"text": list("abcd"), "label": ["x"] * 4})
    assert load(tmp_path / "t.csv").class_names == ("x",)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.json", "t.parquet"])
def test_an_empty_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.parquet", b"text,label\n", "cannot be read as Parquet"),
        ("t.jsonl", b"text,label\n", "cannot be read as JSON Lines"),
        ("t.json", b"[1, 2]", "not every element of the array is an object"),
        ("t.csv", b"text,label\na,b,c\n", "Expected 2 columns, got 3"),
        ("t.csv", "text,label\nnaïve,b\n".encode("latin-1"), "invalid UTF8"),
        ("t.csv", b"text,label\n", "has no rows"),
        ("t.csv", b"text,text\na,b\n", "more than one column text"),
        ("t.jsonl", b'{"text": ["a"], "label": 1}', "in its column text: save one text per row"),
        ("t.xlsx", b"PK", "is of no kind that is known here"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_told_in_one_line(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said) as told:
        load(tmp_path / name)
    assert "\n" not in str(told.value)


def test_a_folder_without_part_files_lists_what_it_has(tmp_path):
    for name in ("one.csv", "two.csv"):
        write_csv(tmp_path / name, REVIEWS)
    with pytest.raises(DataError, match=r"no files called train and test \(found: one\.csv, two\.csv\)"):
        load(tmp_path)


def test_a_place_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.csv does not exist: type -P data="):
        load(tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (None, "no place was given: type -P data="),
        (OwnColumns(""), "no place was given: type -P data="),
        (OwnColumns("x", text=""), "type -P text_column="),
        (OwnColumns("x", label=""), "neither a label nor a target column"),
        (OwnColumns("x", context="text"), "the column text cannot be two things"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(own, said):
    with pytest.raises(SettingsError, match=said):
        load_texts("text", own=own)


def test_any_text_label_id_class_or_part_changes_the_digest_and_nothing_else_does(tmp_path):
    write_csv(tmp_path / "t.csv", REVIEWS)
    dataset = load(tmp_path / "t.csv")
    train = dataset.parts["train"]

    def with_train(**changed):
        return replace(dataset, parts={**dataset.parts, "train": replace(train, **changed)})

    others = [
        with_train(columns={"text": ["x", *train.columns["text"][1:]]}),
        with_train(labels=1 - train.labels),
        with_train(sample_ids=train.sample_ids + 1),
        with_train(metadata={"answers": [["a"]] * len(train)}),
        replace(dataset, class_names=("a", "b")),
        replace(dataset, parts={"train": dataset.parts["test"], "test": train}),
        dataset.limit(1),
    ]
    assert len({dataset.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert with_train(keys=["?"] * len(train), metadata={}).digest == dataset.digest
    assert replace(dataset, source="there").digest == dataset.digest
    assert len(dataset.digest) == 16


def test_where_one_text_ends_is_part_of_the_digest(tmp_path):
    digests = []
    for texts in (["ab", "c"], ["a", "bc"]):
        write_csv(tmp_path / "t.csv", {"text": texts, "label": ["x", "x"]})
        digests.append(load(tmp_path / "t.csv").digest)
    assert digests[0] != digests[1]


def test_a_limit_keeps_the_first_samples_with_all_that_belongs_to_them(tmp_path):
    write_csv(tmp_path / "t.csv", REVIEWS)
    dataset = load(tmp_path / "t.csv")
    few = dataset.limit(2).parts["train"]
    assert len(few) == len(few.keys) == len(few.columns["text"]) == len(few.metadata["stars"]) == 2
    assert dataset.limit(0) is dataset
    with pytest.raises(SettingsError, match="limit=-1 cannot be meant"):
        dataset.limit(-1)
