"""The known text data sets, in every form people have them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actionflow.errors import DataError, SettingsError
from actionflow.training.texts import load_texts, text_dataset_names

EMOTIONS = ("sadness", "joy", "love", "anger", "fear", "surprise")
RELATIONS = ("entailment", "neutral", "contradiction")
HELD_OUT_ARTICLES = [5, 7]
PAIRS = [("a man sleeps", "he is awake", 2), ("a dog runs", "an animal runs", 0), ("a boy", "a tall boy", 1)]


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_json_lines(path, rows):
    write(path, *(json.dumps(row) for row in rows))


def write_hub_parquet(path, names=None, **columns):
    """A table as the hub saves it, with the class names in its schema."""
    table = pa.table(columns)
    if names:
        described = {"info": {"features": {"label": {"names": list(names), "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(described)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def sizes(dataset):
    return {part: len(samples) for part, samples in dataset.parts.items()}


def ids(dataset):
    return {part: samples.sample_ids.tolist() for part, samples in dataset.parts.items()}


@pytest.fixture
def emotion(tmp_path):
    """Three lines to train on, two to validate (with a blank one before), one to test."""
    write(tmp_path / "train.txt", "i feel low;sadness", "i feel great;joy", "i shake; i sweat;fear")
    write(tmp_path / "val.txt", "", "i adore you;love", "i am amazed;surprise")
    write(tmp_path / "test.txt", "i am furious;anger")
    return tmp_path


def article(title, *questions, context="The cat sat on the mat."):
    """Questions are (id, question, answer); an answer of None is one that cannot be given."""
    asked = [
        {
            "id": name,
            "question": question,
            "is_impossible": answer is None,
            "answers": [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}] * 2,
        }
        for name, question, answer in questions
    ]
    return {"title": title, "paragraphs": [{"context": context, "qas": asked}]}


def write_squad(path, *articles):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "1.1", "data": list(articles)}))


def test_the_names_are_the_entry_points():
    assert text_dataset_names() == ["emotion", "mnli", "samsum", "squad", "text"]


def test_an_unknown_name_is_told_with_the_nearest_one():
    with pytest.raises(SettingsError, match="Did you mean emotion"):
        load_texts("emotions")


def test_lines_of_text_and_label_are_three_parts_of_emotion(emotion):
    dataset = load_texts("emotion", str(emotion))
    assert (dataset.task, dataset.class_names) == ("classification", EMOTIONS)
    assert sizes(dataset) == {"train": 3, "validation": 2, "test": 1}
    train = dataset.parts["train"]
    assert train.columns == {"text": ["i feel low", "i feel great", "i shake; i sweat"]}
    assert train.labels.tolist() == [0, 1, 4]
    assert train.keys == ["train/0", "train/1", "train/2"]


def test_a_blank_line_is_counted_and_keeps_its_number_unused(emotion):
    dataset = load_texts("emotion", str(emotion))
    assert ids(dataset) == {"train": [0, 1, 2], "validation": [4, 5], "test": [6]}
    assert dataset.parts["validation"].keys == ["val/1", "val/2"]
    assert dataset.source == f"{emotion}; left aside: 1 row of val without a text"


@pytest.mark.parametrize("folder", ["emotion", "Emotion", "emotion/split", "emotion-corpus"])
def test_a_folder_that_is_called_like_the_data_set_is_found(tmp_path, folder):
    write(tmp_path / folder / "train.txt", "a;joy", "b;fear")
    write(tmp_path / folder / "test.txt", "c;joy")
    assert sizes(load_texts("emotion", str(tmp_path))) == {"train": 2, "test": 1}


def test_without_a_data_dir_the_environment_names_the_folder(emotion, monkeypatch):
    monkeypatch.setenv("ACTIONFLOW_DATA", str(emotion))
    assert sizes(load_texts("emotion"))["train"] == 3


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(tmp_path):
    (tmp_path / "train.txt").write_bytes("\ufefftext;label\r\na;joy\r\nb;joy\r\n".encode())
    (tmp_path / "test.txt").write_bytes(b"c;joy\r\n\r\n")
    dataset = load_texts("emotion", str(tmp_path))
    assert dataset.parts["train"].columns["text"] == ["a", "b"]
    assert ids(dataset) == {"train": [0, 1], "test": [2]}


def test_the_hubs_parquet_names_its_classes_itself(tmp_path):
    """A copy with another order of classes gives the same labels."""
    names = EMOTIONS[::-1]
    write_hub_parquet(tmp_path / "train-00000-of-00002.parquet", names, text=["a", "b"], label=[0, 5])
    write_hub_parquet(tmp_path / "train-00001-of-00002.parquet", names, text=["c"], label=[4])
    write_hub_parquet(tmp_path / "test-00000-of-00001.parquet", text=["d"], label=[1])
    dataset = load_texts("emotion", str(tmp_path))
    assert dataset.parts["train"].labels.tolist() == [5, 0, 1]
    assert dataset.parts["test"].labels.tolist() == [1]


def test_a_missing_shard_is_named(tmp_path):
    write_hub_parquet(tmp_path / "train-00000-of-00002.parquet", text=["a"], label=[0])
    with pytest.raises(DataError, match=r"lacks train-00001-of-00002\.parquet"):
        load_texts("emotion", str(tmp_path))


def test_emotion_as_json_lines_may_name_or_number_its_classes(tmp_path):
    write_json_lines(tmp_path / "train.jsonl", [{"text": "a", "label": 3}, {"text": "b", "label": 0}])
    write_json_lines(tmp_path / "test.jsonl", [{"text": "c", "label": "Anger"}])
    dataset = load_texts("emotion", str(tmp_path))
    assert [dataset.parts[part].labels.tolist() for part in ("train", "test")] == [[3, 0], [3]]


def test_a_label_outside_the_label_set_is_told_with_its_line(emotion):
    write(emotion / "train.txt", "fine;joy", "hm;boredom")
    with pytest.raises(
        DataError, match=r"train\.txt, line 2, has the label 'boredom', but the classes are sadness, joy"
    ):
        load_texts("emotion", str(emotion))


@pytest.mark.parametrize(("line", "said"), [("no label", "has too few columns"), ("no label;", "has no label")])
def test_a_line_without_a_label_is_told_with_its_number(emotion, line, said):
    write(emotion / "train.txt", "fine;joy", line)
    with pytest.raises(DataError, match=rf"train\.txt, line 2, {said}"):
        load_texts("emotion", str(emotion))


def test_an_empty_file_is_refused(emotion):
    (emotion / "train.txt").write_text("")
    with pytest.raises(DataError, match=r"train\.txt is empty"):
        load_texts("emotion", str(emotion))


def test_a_file_of_blank_lines_is_refused(emotion):
    (emotion / "train.txt").write_text("\n \n\n")
    with pytest.raises(DataError, match=r"train\.txt has no row that can be used"):
        load_texts("emotion", str(emotion))


def test_two_files_for_one_part_are_not_mixed(emotion):
    write(emotion / "train_old.txt", "a;joy")
    with pytest.raises(DataError, match=r"more than one file for the part train \(train\.txt, train_old\.txt\)"):
        load_texts("emotion", str(emotion))


def test_a_file_in_place_of_the_folder_is_told(emotion):
    with pytest.raises(DataError, match=f"type -P data_dir={emotion}, the folder"):
        load_texts("emotion", str(emotion / "train.txt"))


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist: type -P data_dir=<folder with train\.txt"):
        load_texts("emotion", str(tmp_path / "nowhere"))


def test_pairs_without_a_header_are_premise_hypothesis_and_label(tmp_path):
    write(tmp_path / "snli-part" / "dev.txt", *("\t".join(map(str, pair)) for pair in PAIRS))
    write(tmp_path / "snli-part" / "test.txt", 'he said "no\tor "maybe\tneutral')
    dataset = load_texts("mnli", str(tmp_path))
    assert dataset.class_names == RELATIONS
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert train.columns["text"][0] == "he is awake"
    assert train.columns["context"][0] == "a man sleeps"
    assert train.labels.tolist() == [2, 0, 1]
    assert test.columns == {"text": ['or "maybe'], "context": ['he said "no']}


def test_without_a_training_file_the_dev_file_is_trained_on_and_told(tmp_path):
    write(tmp_path / "dev.tsv", "a\tb\t0", "c\td\t1")
    write(tmp_path / "test.tsv", "e\tf\t2")
    dataset = load_texts("mnli", str(tmp_path))
    assert ids(dataset) == {"train": [0, 1], "test": [2]}
    assert dataset.parts["train"].keys == ["dev/0", "dev/1"]
    assert "trained on dev, as there is no train part" in dataset.source


def test_the_original_tsv_is_read_by_its_header_and_pairs_without_a_gold_label_are_counted(tmp_path):
    header = "gold_label\tsentence1_parse\tsentence1\tsentence2\tpairID\tgenre\tlabel1"
    write(
        tmp_path / "multinli_1.0" / "multinli_1.0_train.txt",
        header,
        "neutral\t( x )\tp0\th0\t7n\tfiction\tneutral",
        "-\t( x )\tp1\th1\t8n\tfiction\tneutral",
        "entailment\t( x )\tp2\th2\t9e\ttravel\tentailment",
    )
    write(tmp_path / "multinli_1.0" / "multinli_1.0_dev_matched.txt", header, "neutral\t\tp\th\t1n\ttravel\tneutral")
    write(tmp_path / "multinli_1.0" / "multinli_1.0_dev_mismatched.txt", header, "neutral\t\tp\th\t1n\tx\tneutral")
    dataset = load_texts("mnli", str(tmp_path))
    train = dataset.parts["train"]
    assert ids(dataset) == {"train": [0, 2], "test": [3]}
    assert (train.keys, train.metadata) == (["7n", "9e"], {"genre": ["fiction", "travel"]})
    assert train.columns == {"text": ["h0", "h2"], "context": ["p0", "p2"]}
    assert "1 row of train without a gold label" in dataset.source
    assert "left aside: multinli_1.0_dev_mismatched.txt" in dataset.source
    assert "dev is held out as test" in dataset.source


@pytest.mark.parametrize(
    "row",
    [
        {"sentence1": "p", "sentence2": "h", "gold_label": "contradiction"},
        {"premise": "p", "hypothesis": "h", "label": 2},
    ],
)
def test_pairs_as_json_lines_are_read_under_either_name(tmp_path, row):
    write_json_lines(tmp_path / "snli_1.0_train.jsonl", [row, row])
    write_json_lines(tmp_path / "snli_1.0_test.jsonl", [row])
    test = load_texts("mnli", str(tmp_path)).parts["test"]
    assert (test.columns, test.labels.tolist()) == ({"text": ["h"], "context": ["p"]}, [2])


def test_a_test_part_that_hides_its_labels_is_left_aside(tmp_path):
    write(tmp_path / "train.tsv", "sentence1\tsentence2\tgold_label", "a\tb\tneutral", "c\td\tentailment")
    write(tmp_path / "dev_matched.tsv", "sentence1\tsentence2\tgold_label", "e\tf\tneutral")
    write(tmp_path / "test_matched.tsv", "sentence1\tsentence2", "g\th")
    dataset = load_texts("mnli", str(tmp_path))
    assert ids(dataset) == {"train": [0, 1], "test": [2]}
    assert "test, which has no labels" in dataset.source


def samsum_row(number, dialogue="A: hi\r\nB: hello", summary="They greet."):
    return {"id": f"1386{number}", "dialogue": dialogue, "summary": summary}


@pytest.mark.parametrize("form", ["lines", "array"])
def test_dialogues_have_summaries_and_no_classes(tmp_path, form):
    rows = [samsum_row(0), samsum_row(1, dialogue=""), samsum_row(2, dialogue="C: bye")]
    for part, some in {"train": rows, "validation": rows[:1], "test": rows[2:]}.items():
        path = tmp_path / "samsum" / f"{part}.json"
        if form == "lines":
            write_json_lines(path, some)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(some, indent=1))
    dataset = load_texts("samsum", str(tmp_path))
    train = dataset.parts["train"]
    assert (dataset.task, dataset.class_names) == ("text-to-text", ())
    assert train.columns == {"text": ["A: hi\r\nB: hello", "C: bye"], "target_text": ["They greet."] * 2}
    assert train.labels.tolist() == [-1, -1]
    assert train.keys == ["13860", "13862"]
    assert ids(dataset) == {"train": [0, 2], "validation": [3], "test": [4]}
    assert dataset.source == f"{tmp_path / 'samsum'}; left aside: 1 row of train without a dialogue"


def test_a_missing_column_is_told_with_those_that_exist(tmp_path):
    write_json_lines(tmp_path / "train.json", [{"id": 1, "dialog": "A: hi", "summary": "x"}])
    with pytest.raises(DataError, match=r"train\.json has no column dialogue \(found: id, dialog, summary\)"):
        load_texts("samsum", str(tmp_path))


def test_questions_have_a_passage_and_all_their_answers(tmp_path):
    write_squad(
        tmp_path / "train-v1.1.json", article("Cats", ("q1", "Who sat?", "The cat"), ("q2", "Where?", "the mat"))
    )
    write_squad(tmp_path / "dev-v1.1.json", article("Mats", ("q3", "On what?", "mat")))
    dataset = load_texts("squad", str(tmp_path))
    train = dataset.parts["train"]
    assert dataset.task == "question-answering"
    assert train.keys == ["q1", "q2"]
    assert train.columns == {
        "text": ["Who sat?", "Where?"],
        "context": ["The cat sat on the mat."] * 2,
        "target_text": ["The cat", "the mat"],
    }
    assert train.metadata == {
        "title": ["Cats", "Cats"],
        "answers": [["The cat"] * 2, ["the mat"] * 2],
        "answer_starts": [[0, 0], [15, 15]],
    }
    assert ids(dataset) == {"train": [0, 1], "test": [2]}


def test_questions_that_cannot_be_answered_are_counted(tmp_path):
    write_squad(tmp_path / "train-v2.0.json", article("A", ("q1", "Who?", "cat"), ("q2", "Why?", None)))
    write_squad(tmp_path / "dev-v2.0.json", article("B", ("q3", "Who?", "cat")))
    dataset = load_texts("squad", str(tmp_path))
    assert ids(dataset) == {"train": [0], "test": [2]}
    assert "left aside: 1 row of train without an answer" in dataset.source


def test_an_answer_that_is_not_in_the_passage_where_it_should_be_is_counted(tmp_path):
    moved = article("A", ("q1", "Who?", "cat"), ("q2", "Who?", "mat"))
    moved["paragraphs"][0]["qas"][1]["answers"][0] = {"text": "mat", "answer_start": 3}
    write_squad(tmp_path / "train.json", moved)
    write_squad(tmp_path / "dev.json", article("B", ("q3", "Who?", "cat")))
    assert "1 row of train whose answer is not where it should be" in load_texts("squad", str(tmp_path)).source


def test_of_one_part_alone_whole_articles_are_held_out(tmp_path):
    titles = "abcdefghij"
    articles = [article(title, *((f"{title}{n}", "Who?", "cat") for n in range(3))) for title in titles]
    write_squad(tmp_path / "squad-v1.1-dev" / "dev-v1.1.json", *articles)
    write_squad(tmp_path / "squad-v1.1-dev" / "xquad.en.json", articles[0])
    dataset = load_texts("squad", str(tmp_path))
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert sizes(dataset) == {"train": 24, "test": 6}
    assert not set(train.metadata["title"]) & set(test.metadata["title"])
    assert sorted(np.concatenate([train.sample_ids, test.sample_ids])) == list(range(30))
    assert "a fixed fifth of dev is held out as test" in dataset.source
    assert "left aside: xquad.en.json" in dataset.source


def test_the_held_out_articles_are_fixed(tmp_path):
    """These ids are a promise: runs of yesterday are compared with runs of tomorrow."""
    write_squad(tmp_path / "dev-v1.1.json", *(article(str(n), (f"q{n}", "Who?", "cat")) for n in range(10)))
    assert ids(load_texts("squad", str(tmp_path)))["test"] == HELD_OUT_ARTICLES


def test_of_one_article_alone_whole_passages_are_held_out(tmp_path):
    one = article("a", ("q1", "Who?", "cat"), ("q2", "Where?", "mat"))
    other = article("a", ("q3", "Who?", "dog"), context="A dog ran.")
    one["paragraphs"] += other["paragraphs"]
    write_squad(tmp_path / "dev.json", one)
    train, test = load_texts("squad", str(tmp_path)).parts.values()
    assert not set(train.columns["context"]) & set(test.columns["context"])


@pytest.mark.parametrize("pairs", [False, True])
def test_the_hubs_questions_give_the_same_as_the_official_file(tmp_path, pairs):
    answers = [{"text": ["The cat"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    if pairs:
        answers = [[{"text": "The cat", "answer_start": 0}], []]
    columns = {
        "id": ["q1", "q2"],
        "title": ["Cats"] * 2,
        "context": ["The cat sat."] * 2,
        "question": ["Who?", "Why?"],
        "answers": answers,
    }
    for part in ("train", "validation"):
        write_hub_parquet(tmp_path / "squad" / "plain_text" / f"{part}-00000-of-00001.parquet", **columns)
    test = load_texts("squad", str(tmp_path)).parts["test"]
    assert (test.keys, test.sample_ids.tolist()) == (["q1"], [2])
    assert test.metadata == {"title": ["Cats"], "answers": [["The cat"]], "answer_starts": [[0]]}


@pytest.mark.parametrize(
    "content", ['{"data": [{"title": "x", "paragraphs": [{}]}]}', '{"data": [{"paragraphs": ', "x"]
)
def test_a_damaged_file_is_told_in_one_line(tmp_path, content):
    (tmp_path / "train-v1.1.json").write_text(content)
    with pytest.raises(DataError, match=r"train-v1\.1\.json cannot be read as") as told:
        load_texts("squad", str(tmp_path))
    assert "\n" not in str(told.value)
