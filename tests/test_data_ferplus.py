"""FER+: two files row by row, and the vote."""

import numpy as np
import pytest

from actionflow.errors import DataError
from actionflow.training.data import load_dataset
from actionflow.training.data.ferplus import VOTES, majority

HAPPY = [0, 9, 0, 0, 0, 0, 0, 0, 1, 0]
SAD = [2, 0, 0, 7, 0, 0, 0, 0, 1, 0]
TIE = [5, 5, 0, 0, 0, 0, 0, 0, 0, 0]
NO_FACE = [0, 0, 0, 0, 0, 0, 0, 0, 2, 8]
UNKNOWN = [1, 0, 0, 0, 1, 0, 0, 0, 8, 0]
SCATTERED = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]

ROWS = [
    ("Training", "a.png", HAPPY),
    ("Training", "b.png", TIE),
    ("Training", "c.png", SAD),
    ("Training", "", SAD),
    ("PublicTest", "d.png", SAD),
    ("PublicTest", "e.png", HAPPY),
    ("PrivateTest", "f.png", NO_FACE),
    ("PrivateTest", "g.png", SAD),
]


def pixels(row):
    """The row's number in the upper left corner, then all grey levels over and over."""
    return [row, *(place % 256 for place in range(1, 48 * 48))]


def write(folder, rows=ROWS, pixel_rows=None, change=lambda row, text: text):
    folder.mkdir(parents=True, exist_ok=True)
    votes = [f"{usage},{name},{','.join(map(str, count))}" for usage, name, count in rows]
    header = f"Usage,Image name,{','.join(VOTES)}"
    (folder / "fer2013new.csv").write_text("\n".join([header, *votes]) + "\n")
    usages = [usage for usage, _, _ in (pixel_rows or rows)]
    faces = [f"0,{change(row, ' '.join(map(str, pixels(row))))},{usage}" for row, usage in enumerate(usages)]
    (folder / "fer2013.csv").write_text("\n".join(["emotion,pixels,Usage", *faces]) + "\n")


def test_rows_are_dropped_and_never_renumbered(tmp_path):
    write(tmp_path)
    dataset = load_dataset("ferplus", str(tmp_path))
    train, test = dataset.parts["train"], dataset.parts["test"]
    assert (train.sample_ids.tolist(), test.sample_ids.tolist()) == ([0, 2], [7])
    assert (train.keys, test.keys) == (["a.png", "c.png"], ["g.png"])
    assert [dataset.class_names[label] for label in train.labels] == ["happiness", "sadness"]
    assert dataset.image_size == (48, 48)


def test_a_sample_has_the_pixels_of_its_own_row(tmp_path):
    write(tmp_path)
    parts = load_dataset("ferplus", str(tmp_path)).parts
    for part in parts.values():
        for sample_id, image in zip(part.sample_ids, part.images, strict=True):
            assert image.reshape(-1).tolist() == pixels(sample_id)


def test_the_public_test_rows_are_left_aside_and_counted(tmp_path):
    write(tmp_path)
    assert "left aside: 2 PublicTest rows; 3 rows without a majority" in load_dataset("ferplus", str(tmp_path)).source


def test_the_votes_are_kept(tmp_path):
    write(tmp_path)
    train = load_dataset("ferplus", str(tmp_path)).parts["train"]
    assert sorted(train.metadata) == sorted(f"votes_{name.lower()}" for name in VOTES)
    assert train.metadata["votes_happiness"].tolist() == [9, 0]
    assert train.metadata["votes_nf"].tolist() == [0, 0]


def test_the_two_files_may_lie_in_folders_of_their_own(tmp_path):
    write(tmp_path / "fer2013")
    (tmp_path / "fer2013" / "fer2013new.csv").rename(tmp_path / "fer2013new.csv")
    assert load_dataset("ferplus", str(tmp_path)).parts["train"].keys == ["a.png", "c.png"]


def test_a_limit_counts_kept_rows_and_keeps_their_ids(tmp_path):
    write(tmp_path)
    assert load_dataset("ferplus", str(tmp_path)).limit(1).parts["test"].sample_ids.tolist() == [7]


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        (HAPPY, "happiness"),
        (SAD, "sadness"),
        (TIE, "unknown"),
        (NO_FACE, "NF"),
        (UNKNOWN, "unknown"),
        (SCATTERED, "unknown"),
        ([4, 0, 0, 3, 1, 1, 1, 0, 0, 0], "neutral"),  # 4 of 7: lone votes do not count
        ([4, 0, 0, 2, 2, 1, 1, 0, 0, 0], "unknown"),  # 4 of 8 is not more than half
    ],
)
def test_the_majority_is_more_than_half_of_the_votes_that_do_not_stand_alone(votes, winner):
    assert VOTES[majority(np.array([votes]))[0]] == winner


def test_the_vote_file_alone_names_the_missing_pixel_file(tmp_path):
    write(tmp_path)
    (tmp_path / "fer2013.csv").unlink()
    with pytest.raises(DataError, match=r"has fer2013new\.csv but lacks fer2013\.csv"):
        load_dataset("ferplus", str(tmp_path))


def test_files_of_different_length_are_both_counted(tmp_path):
    write(tmp_path, pixel_rows=ROWS[:-1])
    with pytest.raises(DataError, match=r"fer2013\.csv has 7 rows but .*fer2013new\.csv has 8"):
        load_dataset("ferplus", str(tmp_path))


def test_files_that_are_not_row_by_row_are_found_out(tmp_path):
    write(tmp_path, pixel_rows=[ROWS[-1], *ROWS[1:]])
    with pytest.raises(DataError, match=r"Row 0 is PrivateTest in .* but Training in"):
        load_dataset("ferplus", str(tmp_path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.rpartition(" ")[0], "has 2303 pixels instead of 2304"),
        (lambda text: text.replace("255", "256"), "has a pixel outside 0 to 255"),
        (lambda text: text.replace("255", "x"), "instead of 2304 numbers"),
        (lambda text: "", "has 0 pixels"),
    ],
)
def test_a_bad_face_is_told_by_row(tmp_path, change, said):
    write(tmp_path, change=lambda row, text: change(text) if row == 2 else text)
    with pytest.raises(DataError, match=rf"fer2013\.csv, row 2, .*{said}"):
        load_dataset("ferplus", str(tmp_path))


def test_a_truncated_table_is_named(tmp_path):
    write(tmp_path)
    path = tmp_path / "fer2013.csv"
    path.write_text(path.read_text()[:-3000])
    with pytest.raises(DataError, match=r"fer2013\.csv cannot be read as FER's table of pixels"):
        load_dataset("ferplus", str(tmp_path))


def test_a_table_of_votes_that_lacks_a_column_is_named(tmp_path):
    write(tmp_path)
    path = tmp_path / "fer2013new.csv"
    path.write_text(path.read_text().replace("contempt", "other"))
    with pytest.raises(DataError, match=r"fer2013new\.csv cannot be read as FER\+'s table of votes.*contempt"):
        load_dataset("ferplus", str(tmp_path))


def test_a_missing_vote_is_told_by_row(tmp_path):
    write(tmp_path)
    path = tmp_path / "fer2013new.csv"
    path.write_text(path.read_text().replace("c.png,2,0,0,7", "c.png,2,0,0,"))
    with pytest.raises(DataError, match=r"fer2013new\.csv, row 2, has no number of votes for sadness"):
        load_dataset("ferplus", str(tmp_path))
