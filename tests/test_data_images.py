"""The user's own pictures: folders and Parquet files as people have them."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import load_dataset


def save(path, size=(12, 12), colour=(200, 30, 30), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def encoded(colour, size=(12, 12), mode="RGB"):
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def pets(tmp_path):
    """Ten cats and five dogs, of one size, in colour."""
    for number in range(10):
        save(tmp_path / "cat" / f"{number}.png", colour=(number, 50, 90))
    for number in range(5):
        save(tmp_path / "dog" / f"{number}.jpg", colour=(250, number, 0))
    return tmp_path


def write_table(path, labels, names=None, **columns):
    """Pictures in red, brighter from row to row, so that a row can be told by its pixels."""
    pictures = [{"bytes": encoded((row, 0, 0)), "path": f"{row}.png"} for row in range(len(labels))]
    table = pa.table({"image": pictures, "label": labels, **columns})
    if names:
        described = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(described)})
    pq.write_table(table, path)


def both(dataset, column):
    """One column over both parts, in the order of the ids."""
    parts = dataset.parts.values()
    pairs = [pair for part in parts for pair in zip(part.sample_ids.tolist(), getattr(part, column), strict=True)]
    return [value for _, value in sorted(pairs, key=lambda pair: pair[0])]


def test_folders_are_classes_and_ids_the_sorted_order(pets):
    dataset = load_dataset("images", str(pets))
    assert dataset.class_names == ("cat", "dog")
    assert both(dataset, "keys") == [f"cat/{n}.png" for n in range(10)] + [f"dog/{n}.jpg" for n in range(5)]
    assert both(dataset, "labels") == [0] * 10 + [1] * 5
    assert np.bincount(dataset.parts["test"].labels).tolist() == [2, 1]
    assert (dataset.channels, dataset.image_size) == (3, (12, 12))


def test_pixels_are_those_of_the_file_that_the_key_names(pets):
    train = load_dataset("images", str(pets)).parts["train"]
    for key, image in zip(train.keys, train.images, strict=True):
        np.testing.assert_array_equal(image, np.asarray(Image.open(pets / key)).transpose(2, 0, 1))


def test_the_split_of_an_own_folder_is_fixed(pets):
    first, second = (load_dataset("images", str(pets)).parts["test"] for _ in range(2))
    assert first.keys == second.keys


def test_what_is_no_picture_is_passed_over(pets):
    (pets / "cat" / "Thumbs.db").write_bytes(b"x")
    (pets / "cat" / "._0.png").write_bytes(b"x")
    (pets / ".DS_Store").write_bytes(b"x")
    (pets / "empty").mkdir()
    (pets / ".hidden").mkdir()
    (pets / ".hidden" / "1.png").write_bytes(b"x")
    dataset = load_dataset("images", str(pets))
    assert dataset.class_names == ("cat", "dog")
    assert len(both(dataset, "keys")) == 15


@pytest.mark.parametrize("held_out", ["test", "val", "validation"])
def test_train_and_test_folders_are_the_parts(tmp_path, held_out):
    for name in ("cat", "dog"):
        save(tmp_path / "train" / name / "1.png")
        save(tmp_path / "train" / name / "2.png")
        save(tmp_path / held_out / name / "1.png")
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.parts["train"].keys == ["train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "train/dog/2.png"]
    assert dataset.parts["test"].keys == [f"{held_out}/cat/1.png", f"{held_out}/dog/1.png"]
    assert dataset.parts["test"].sample_ids.tolist() == [4, 5]


def test_a_validation_folder_beside_a_test_folder_is_left_aside_and_told(tmp_path):
    for part in ("train", "test", "val"):
        for name in ("cat", "dog"):
            save(tmp_path / part / name / "1.png")
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.parts["test"].keys == ["test/cat/1.png", "test/dog/1.png"]
    assert "left aside: val" in dataset.source


def test_a_train_folder_alone_is_divided_like_any_other(tmp_path):
    for name in ("cat", "dog"):
        for number in range(5):
            save(tmp_path / "train" / name / f"{number}.png")
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.class_names == ("cat", "dog")
    assert [len(dataset.parts[part]) for part in ("train", "test")] == [8, 2]


def test_train_may_be_a_class(tmp_path):
    for name in ("car", "train"):
        for number in range(5):
            save(tmp_path / name / f"{number}.png")
    assert load_dataset("images", str(tmp_path)).class_names == ("car", "train")


def test_a_class_of_the_test_folder_that_is_not_trained_is_named(tmp_path):
    for name in ("cat", "dog"):
        save(tmp_path / "train" / name / "1.png")
    save(tmp_path / "test" / "owl" / "1.png")
    with pytest.raises(DataError, match="test pictures of owl but no training pictures"):
        load_dataset("images", str(tmp_path))


def test_pictures_of_different_sizes_are_scaled_to_64(pets):
    save(pets / "dog" / "wide.png", size=(90, 30))
    assert load_dataset("images", str(pets)).image_size == (64, 64)


def test_pictures_that_are_all_large_are_scaled_to_64(tmp_path):
    for name in ("a", "b"):
        for number in range(2):
            save(tmp_path / name / f"{number}.png", size=(100, 100))
    assert load_dataset("images", str(tmp_path)).image_size == (64, 64)


def test_a_large_photograph_keeps_its_colours_when_it_is_scaled(tmp_path):
    for name, colour in (("a", (200, 30, 30)), ("b", (30, 30, 200))):
        for number in range(2):
            save(tmp_path / name / f"{number}.jpg", size=(1200, 900), colour=colour)
    reds = load_dataset("images", str(tmp_path)).parts["train"].images[0]
    assert reds.shape == (3, 64, 64)
    assert np.abs(reds.astype(int) - np.array([200, 30, 30])[:, None, None]).max() <= 3


def test_image_size_is_obeyed(pets):
    assert load_dataset("images", str(pets), image_size=20).image_size == (20, 20)


def test_small_pictures_that_are_not_square_keep_their_shape(tmp_path):
    for name in ("a", "b"):
        for number in range(2):
            save(tmp_path / name / f"{number}.png", size=(20, 10))
    assert load_dataset("images", str(tmp_path)).image_size == (10, 20)


@pytest.mark.parametrize(("mode", "colour"), [("L", 90), ("RGB", (90, 90, 90)), ("P", 90), ("LA", (90, 255))])
def test_grey_pictures_have_one_channel_however_they_are_saved(tmp_path, mode, colour):
    for name in ("a", "b"):
        for number in range(2):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("L" if mode == "P" else mode, (9, 9), colour).convert(mode).save(path)
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.channels == 1
    assert (dataset.parts["train"].images == 90).all()


def test_one_coloured_picture_gives_all_of_them_three_channels(tmp_path):
    for name in ("a", "b"):
        for number in range(3):
            save(tmp_path / name / f"{number}.png", mode="L", colour=90)
    save(tmp_path / "b" / "red.png")
    assert load_dataset("images", str(tmp_path)).channels == 3


def test_transparency_is_laid_on_white(tmp_path):
    for name in ("a", "b"):
        for number in range(2):
            save(tmp_path / name / f"{number}.png", mode="RGBA", colour=(255, 0, 0, 0))
    assert (load_dataset("images", str(tmp_path)).parts["train"].images == 255).all()


def test_sixteen_bits_are_brought_to_eight(tmp_path):
    for name in ("a", "b"):
        for number in range(2):
            path = tmp_path / name / f"{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(np.full((9, 9), 128 * 256, np.uint16)).save(path)
    assert (load_dataset("images", str(tmp_path)).parts["train"].images == 128).all()


@pytest.mark.parametrize("ending", ["bmp", "gif", "webp", "tif", "jpeg", "PNG"])
def test_pictures_may_be_of_many_kinds(tmp_path, ending):
    for name in ("a", "b"):
        for number in range(2):
            save(tmp_path / name / f"{number}.{ending}")
    assert len(both(load_dataset("images", str(tmp_path)), "keys")) == 4


@pytest.mark.parametrize("damage", [lambda content: b"no picture", lambda content: content[: len(content) // 2]])
def test_a_picture_that_cannot_be_decoded_is_named(pets, damage):
    path = pets / "dog" / "3.jpg"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"dog/3\.jpg cannot be read as a picture"):
        load_dataset("images", str(pets))


def test_one_class_is_not_enough(tmp_path):
    save(tmp_path / "cat" / "1.png")
    with pytest.raises(DataError, match="at least two classes, found only 'cat'"):
        load_dataset("images", str(tmp_path))


def test_pictures_without_class_folders_are_no_classes(tmp_path):
    save(tmp_path / "1.png")
    with pytest.raises(DataError, match=r"found none in .*\(1 pictures\): give each class a folder"):
        load_dataset("images", str(tmp_path))


def test_own_data_needs_a_folder():
    with pytest.raises(SettingsError, match="-P data_dir=<folder"):
        load_dataset("images")


def test_a_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist: type -P data_dir="):
        load_dataset("images", str(tmp_path / "nowhere"))


def test_class_names_come_from_the_schema(tmp_path):
    write_table(tmp_path / "pets.parquet", [0, 1] * 5, names=["cat", "dog", "owl"])
    dataset = load_dataset("images", str(tmp_path / "pets.parquet"))
    assert dataset.class_names == ("cat", "dog", "owl")
    assert both(dataset, "labels") == [0, 1] * 5
    assert both(dataset, "keys") == [f"{row}.png" for row in range(10)]
    assert [int(image[0, 0, 0]) for image in both(dataset, "images")] == list(range(10))


def test_texts_are_their_own_class_names(tmp_path):
    write_table(tmp_path / "pets.parquet", ["owl", "cat"] * 5)
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.class_names == ("cat", "owl")
    assert both(dataset, "labels") == [1, 0] * 5


def test_numbers_without_names_are_named_by_themselves(tmp_path):
    write_table(tmp_path / "pets.parquet", [0, 1, 2, 2] * 3)
    assert load_dataset("images", str(tmp_path)).class_names == ("0", "1", "2")


def test_further_columns_become_metadata(tmp_path):
    age, place = list(range(10)), [f"town {row}" for row in range(10)]
    write_table(tmp_path / "pets.parquet", [0, 1] * 5, age=age, place=place, boxes=[[1, 2]] * 10)
    train = load_dataset("images", str(tmp_path)).parts["train"]
    assert sorted(train.metadata) == ["age", "place"]
    assert train.metadata["age"].tolist() == train.sample_ids.tolist()
    assert train.metadata["place"] == [f"town {row}" for row in train.sample_ids]


def test_parquet_parts_are_kept_and_share_their_classes(tmp_path):
    write_table(tmp_path / "train-00000-of-00001.parquet", ["owl", "cat", "dog"])
    write_table(tmp_path / "validation-00000-of-00001.parquet", ["dog", "cat"])
    dataset = load_dataset("images", str(tmp_path))
    assert dataset.class_names == ("cat", "dog", "owl")
    assert dataset.parts["test"].labels.tolist() == [1, 0]
    assert dataset.parts["test"].sample_ids.tolist() == [3, 4]


def test_a_label_that_the_schema_does_not_name_is_told_by_row(tmp_path):
    write_table(tmp_path / "pets.parquet", [0, 1, 1, 5], names=["cat", "dog"])
    with pytest.raises(DataError, match=r"pets\.parquet, row 3, has label 5, but the 2 classes"):
        load_dataset("images", str(tmp_path))


def test_a_label_that_says_there_is_none_is_told_by_row(tmp_path):
    write_table(tmp_path / "pets.parquet", [0, 1, -1, 1])
    with pytest.raises(DataError, match=r"pets\.parquet, row 2, has label -1"):
        load_dataset("images", str(tmp_path))


def test_a_missing_label_is_told_by_row(tmp_path):
    write_table(tmp_path / "pets.parquet", ["cat", None, "dog"])
    with pytest.raises(DataError, match=r"pets\.parquet, row 1, has no label"):
        load_dataset("images", str(tmp_path))


def test_labels_that_are_no_whole_numbers_are_refused(tmp_path):
    write_table(tmp_path / "pets.parquet", [0.5, 1.0])
    with pytest.raises(DataError, match="labels of type double"):
        load_dataset("images", str(tmp_path))


@pytest.mark.parametrize(
    ("picture", "said"), [(b"no picture", "cannot be read as a picture"), (None, "has no picture")]
)
def test_a_bad_picture_in_a_table_is_told_by_row(tmp_path, picture, said):
    pictures = [encoded((1, 2, 3)), encoded((1, 2, 3)), picture]
    pq.write_table(pa.table({"image": pictures, "label": [0, 1, 0]}), tmp_path / "pets.parquet")
    with pytest.raises(DataError, match=rf"pets\.parquet, row 2 {said}"):
        load_dataset("images", str(tmp_path))


@pytest.mark.parametrize(("column", "missing"), [("image", "label"), ("label", "picture")])
def test_a_table_without_pictures_or_labels_says_what_it_has(tmp_path, column, missing):
    content = {"image": [encoded((1, 2, 3))], "label": [1]}
    pq.write_table(pa.table({column: content[column], "note": ["x"]}), tmp_path / "pets.parquet")
    with pytest.raises(DataError, match=rf"no {missing} column \(found: {column} .*, note \(string\)\)"):
        load_dataset("images", str(tmp_path))


def test_a_table_of_one_class_is_refused(tmp_path):
    write_table(tmp_path / "pets.parquet", ["cat"] * 4)
    with pytest.raises(DataError, match="found only 'cat'"):
        load_dataset("images", str(tmp_path))


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "pets.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match=r"pets\.parquet cannot be read as Parquet"):
        load_dataset("images", str(tmp_path))


def test_files_of_two_data_sets_in_one_folder_are_told_apart(tmp_path):
    write_table(tmp_path / "cats.parquet", ["a", "b"])
    write_table(tmp_path / "dogs.parquet", ["a", "b"], age=[1, 2])
    with pytest.raises(DataError, match=r"dogs\.parquet has the columns .*age \(int64\), but cats\.parquet has"):
        load_dataset("images", str(tmp_path))
