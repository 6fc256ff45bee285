"""The same small data set in every form gives the same arrays; every way a form can be broken is named."""

import gzip
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actionflow.errors import DataError, SettingsError
from actionflow.training.data import dataset_names, load_dataset
from actionflow.training.data.known_sets import KNOWN_SETS

TRAIN, TEST = 20, 10
GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def part(count, shape, seed):
    """Random pictures, with labels in ascending order so that a folder sorted by class keeps the order."""
    images = np.random.RandomState(seed).randint(0, 256, (count, *shape)).astype(np.uint8)
    return images, np.arange(count) * 10 // count


@pytest.fixture
def grey():
    return {"train": part(TRAIN, GREY, 1), "test": part(TEST, GREY, 2)}


@pytest.fixture
def colour():
    return {"train": part(TRAIN, COLOUR, 3), "test": part(TEST, COLOUR, 4)}


def idx_bytes(values):
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write_idx(folder, parts, zipped=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in zip(("train", "t10k"), parts.values(), strict=True):
        for file, values in (("images-idx3", images[:, 0]), ("labels-idx1", labels.astype(np.uint8))):
            content = idx_bytes(values)
            path = folder / f"{name}-{file}-ubyte"
            if zipped:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
            else:
                path.write_bytes(content)


def write_npz(folder, parts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in parts.items():
        np.savez_compressed(folder / f"kmnist-{name}-imgs.npz", images[:, 0])
        np.savez_compressed(folder / f"kmnist-{name}-labels.npz", labels.astype(np.uint8))


def png(image):
    file = io.BytesIO()
    Image.fromarray(image.transpose(1, 2, 0).squeeze()).save(file, "PNG")
    return file.getvalue()


def write_dotted_idx(folder, parts):
    write_idx(folder, parts)
    for path in list(folder.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))


def write_parquet(folder, parts, image="image", label="label", raw=False, shards=1):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in parts.items():
        pictures = [png(picture) if raw else {"bytes": png(picture), "path": None} for picture in images]
        kind = pa.binary() if raw else pa.struct({"bytes": pa.binary(), "path": pa.string()})
        table = pa.table({image: pa.array(pictures, kind), label: labels})
        size = -(-len(labels) // shards)
        for shard in range(shards):
            path = folder / f"{name}-{shard:05d}-of-{shards:05d}.parquet"
            pq.write_table(table.slice(shard * size, size), path)


def write_folder(folder, parts, class_names):
    for name, (images, labels) in parts.items():
        for position, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = folder / name / class_names[label].replace("/", "-") / f"{position:05d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(image))


def batch_bytes(images, labels, protocol=2):
    return pickle.dumps({b"data": images.reshape(len(images), -1), b"labels": [int(x) for x in labels]}, protocol)


def write_batches(folder, parts, protocol=2):
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = parts["train"]
    for number in range(5):
        some = slice(number * 4, number * 4 + 4)
        (folder / f"data_batch_{number + 1}").write_bytes(batch_bytes(images[some], labels[some], protocol))
    (folder / "test_batch").write_bytes(batch_bytes(*parts["test"], protocol))


def python_2_batch(images, labels):
    """What Python 2 wrote, opcode by opcode: the official files are still of its making."""
    pixels = images.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    kind = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"(K" + bytes([len(images)]) + b"M" + struct.pack("<H", images[0].size) + b"t"
    state = b"(K\x01" + shape + kind + b"\x89T" + struct.pack("<I", len(pixels)) + pixels + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + state + b"U\x06labels" + listed + b"u."


def write_python_2_batches(folder, parts):
    write_batches(folder, parts)
    for path in folder.iterdir():
        batch = pickle.loads(path.read_bytes())
        path.write_bytes(python_2_batch(batch[b"data"], batch[b"labels"]))


def write_archive(folder, parts):
    write_batches(folder / "unpacked", parts)
    with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(folder / "unpacked", "cifar-10-batches-py")


MNIST_FORMS = {
    "plain idx": lambda folder, parts: write_idx(folder, parts),
    "gzipped idx": lambda folder, parts: write_idx(folder, parts, zipped=True),
    "idx with dots": write_dotted_idx,
    "idx in a named folder": lambda folder, parts: write_idx(folder / "fashion-mnist", parts),
    "torchvision": lambda folder, parts: write_idx(folder / "FashionMNIST" / "raw", parts),
    "hub": lambda folder, parts: write_parquet(folder / "fashion_mnist", parts),
    "image folder": lambda folder, parts: write_folder(folder, parts, KNOWN_SETS["fashion_mnist"].class_names),
    "numbered image folder": lambda folder, parts: write_folder(folder, parts, "0123456789"),
}
CIFAR_FORMS = {
    "batches": lambda folder, parts: write_batches(folder / "cifar-10-batches-py", parts),
    "batches named by data_dir": lambda folder, parts: write_batches(folder, parts),
    "batches of today's numpy": lambda folder, parts: write_batches(folder, parts, protocol=5),
    "batches of Python 2": write_python_2_batches,
    "archive": write_archive,
    "hub": lambda folder, parts: write_parquet(folder / "cifar-10" / "plain_text", parts, image="img"),
    "hub in shards": lambda folder, parts: write_parquet(folder / "data", parts, shards=3),
    "raw bytes": lambda folder, parts: write_parquet(folder, parts, label="labels", raw=True),
    "image folder": lambda folder, parts: write_folder(folder, parts, KNOWN_SETS["cifar10"].class_names),
}


def assert_holds(dataset, parts):
    train, test = dataset.parts["train"], dataset.parts["test"]
    np.testing.assert_array_equal(train.images, parts["train"][0])
    np.testing.assert_array_equal(test.images, parts["test"][0])
    np.testing.assert_array_equal(train.labels, parts["train"][1])
    np.testing.assert_array_equal(test.labels, parts["test"][1])
    np.testing.assert_array_equal(train.sample_ids, np.arange(TRAIN))
    np.testing.assert_array_equal(test.sample_ids, np.arange(TRAIN, TRAIN + TEST))
    assert (train.images.dtype, train.labels.dtype, train.sample_ids.dtype) == (np.uint8, np.int64, np.int64)
    assert len(set(train.keys)) == TRAIN


@pytest.mark.parametrize("form", MNIST_FORMS)
def test_every_form_of_fashion_mnist_gives_the_same_arrays(tmp_path, grey, form):
    MNIST_FORMS[form](tmp_path, grey)
    dataset = load_dataset("fashion_mnist", str(tmp_path))
    assert_holds(dataset, grey)
    assert dataset.class_names[0] == "T-shirt/top"


@pytest.mark.parametrize("form", CIFAR_FORMS)
def test_every_form_of_cifar10_gives_the_same_arrays(tmp_path, colour, form):
    CIFAR_FORMS[form](tmp_path, colour)
    dataset = load_dataset("cifar10", str(tmp_path))
    assert_holds(dataset, colour)
    assert (dataset.channels, dataset.image_size, dataset.class_names[3]) == (3, (32, 32), "cat")


def test_the_digest_is_of_the_content_and_not_of_the_form(tmp_path, colour):
    digests = set()
    for form, write in CIFAR_FORMS.items():
        folder = tmp_path / form
        folder.mkdir()
        write(folder, colour)
        digests.add(load_dataset("cifar10", str(folder)).digest)
    assert [len(digest) for digest in digests] == [16]


def test_one_pixel_or_one_label_changes_the_digest(tmp_path, colour):
    write_batches(tmp_path / "a", colour)
    colour["test"][0][5, 0, 0, 0] ^= 1
    write_batches(tmp_path / "b", colour)
    colour["test"][1][9] = 0
    write_batches(tmp_path / "c", colour)
    assert len({load_dataset("cifar10", str(tmp_path / name)).digest for name in "abc"}) == 3


def test_kmnist_is_read_from_its_official_npz_files(tmp_path, grey):
    write_npz(tmp_path / "kmnist", grey)
    assert_holds(load_dataset("kmnist", str(tmp_path)), grey)


def test_a_limit_leaves_the_ids_alone(tmp_path, grey):
    write_idx(tmp_path, grey)
    limited = load_dataset("mnist", str(tmp_path)).limit(3)
    assert limited.parts["train"].sample_ids.tolist() == [0, 1, 2]
    assert limited.parts["test"].sample_ids.tolist() == [TRAIN, TRAIN + 1, TRAIN + 2]
    assert limited.parts["test"].keys == ["test/0", "test/1", "test/2"]


def test_a_limit_of_zero_keeps_all_and_a_negative_one_is_refused(tmp_path, grey):
    write_idx(tmp_path, grey)
    dataset = load_dataset("mnist", str(tmp_path))
    assert len(dataset.limit(0).parts["train"]) == TRAIN
    with pytest.raises(SettingsError, match="limit=-1"):
        dataset.limit(-1)


def test_image_size_scales_arrays_and_pictures_alike(tmp_path, grey):
    write_idx(tmp_path / "idx", grey)
    write_parquet(tmp_path / "hub", grey)
    from_idx = load_dataset("mnist", str(tmp_path / "idx"), image_size=16)
    from_hub = load_dataset("mnist", str(tmp_path / "hub"), image_size=16)
    assert from_idx.image_size == (16, 16)
    assert from_idx.digest == from_hub.digest


def test_arrays_can_be_written_to(tmp_path, grey):
    """torch.from_numpy warns of arrays that cannot."""
    write_idx(tmp_path, grey, zipped=True)
    assert load_dataset("mnist", str(tmp_path)).parts["train"].images.flags.writeable


def test_a_complete_form_is_found_beside_an_incomplete_one(tmp_path, grey):
    write_idx(tmp_path, grey)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    write_parquet(tmp_path / "mnist", grey)
    assert_holds(load_dataset("mnist", str(tmp_path)), grey)


def test_missing_idx_files_are_named(tmp_path, grey):
    write_idx(tmp_path, grey)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"lacks t10k-labels-idx1-ubyte\[\.gz\].*-P data_dir="):
        load_dataset("mnist", str(tmp_path))


def test_a_missing_npz_file_is_named(tmp_path, grey):
    write_npz(tmp_path, grey)
    (tmp_path / "kmnist-train-imgs.npz").unlink()
    with pytest.raises(DataError, match=r"lacks kmnist-train-imgs\.npz"):
        load_dataset("kmnist", str(tmp_path))


def test_a_missing_batch_is_named(tmp_path, colour):
    write_batches(tmp_path, colour)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(DataError, match="lacks data_batch_4:"):
        load_dataset("cifar10", str(tmp_path))


def test_a_missing_shard_is_named(tmp_path, colour):
    write_parquet(tmp_path, colour, shards=2)
    (tmp_path / "train-00001-of-00002.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks train-00001-of-00002\.parquet"):
        load_dataset("cifar10", str(tmp_path))


@pytest.mark.parametrize("write", [write_parquet, lambda f, p: write_folder(f, p, KNOWN_SETS["cifar10"].class_names)])
def test_a_missing_test_part_is_named(tmp_path, colour, write):
    write(tmp_path, {"train": colour["train"]})
    with pytest.raises(DataError, match=r"has train.* but lacks test"):
        load_dataset("cifar10", str(tmp_path))


def cut(path: Path):
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("zipped", [False, True])
def test_a_truncated_idx_file_is_named(tmp_path, grey, zipped):
    write_idx(tmp_path, grey, zipped)
    name = "train-images-idx3-ubyte" + (".gz" if zipped else "")
    cut(tmp_path / name)
    with pytest.raises(DataError, match=f"{name} cannot be read as an idx file"):
        load_dataset("mnist", str(tmp_path))


def test_an_idx_file_that_goes_on_too_long_is_named(tmp_path, grey):
    write_idx(tmp_path, grey)
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte .*goes on"):
        load_dataset("mnist", str(tmp_path))


def test_a_file_that_is_no_idx_file_is_named(tmp_path, grey):
    write_idx(tmp_path, grey)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte .*3c 68 74 6d"):
        load_dataset("mnist", str(tmp_path))


def test_a_truncated_npz_file_is_named(tmp_path, grey):
    write_npz(tmp_path, grey)
    cut(tmp_path / "kmnist-test-imgs.npz")
    with pytest.raises(DataError, match=r"kmnist-test-imgs\.npz cannot be read as an npz file"):
        load_dataset("kmnist", str(tmp_path))


def test_a_truncated_batch_is_named(tmp_path, colour):
    write_batches(tmp_path, colour)
    cut(tmp_path / "data_batch_3")
    with pytest.raises(DataError, match="data_batch_3 cannot be read as a CIFAR-10 batch"):
        load_dataset("cifar10", str(tmp_path))


def test_a_truncated_archive_is_named(tmp_path, colour):
    write_archive(tmp_path, colour)
    archive = tmp_path / "cifar-10-python.tar.gz"
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz cannot be read as a tar archive"):
        load_dataset("cifar10", str(tmp_path))


def test_a_truncated_parquet_file_is_named(tmp_path, colour):
    write_parquet(tmp_path, colour)
    cut(tmp_path / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"test-00000-of-00001\.parquet cannot be read as Parquet"):
        load_dataset("cifar10", str(tmp_path))


class Evil:
    """Pickles into a call, as a hostile data folder could."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_batch_that_would_run_code_is_refused(tmp_path, colour):
    write_batches(tmp_path, colour)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Evil(tmp_path / "owned")}))
    with pytest.raises(DataError, match=r"data_batch_1 .*asks for pathlib"):
        load_dataset("cifar10", str(tmp_path))
    assert not (tmp_path / "owned").exists()


def test_images_and_labels_of_different_count_are_both_counted(tmp_path, grey):
    grey["test"] = (grey["test"][0], grey["test"][1][:7])
    write_idx(tmp_path, grey)
    with pytest.raises(DataError, match=r"t10k-images.* has 10 images but .*t10k-labels.* has 7 labels"):
        load_dataset("mnist", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "write", "file"),
    [
        ("mnist", write_idx, "train-labels-idx1-ubyte, row 6"),
        ("kmnist", write_npz, "kmnist-train-labels.npz, row 6"),
        ("mnist", write_parquet, "train-00000-of-00001.parquet, row 6"),
    ],
)
def test_a_label_out_of_range_is_named_by_file_and_row(tmp_path, grey, name, write, file):
    grey["train"][1][6] = 12
    write(tmp_path, grey)
    with pytest.raises(DataError, match=f"{file}, has label 12, but the 10 classes are labelled 0 to 9"):
        load_dataset(name, str(tmp_path))


def test_a_bad_label_in_a_batch_is_named_by_its_row_there(tmp_path, colour):
    colour["train"][1][6] = -1
    write_batches(tmp_path, colour)
    with pytest.raises(DataError, match="data_batch_2, row 2, has label -1"):
        load_dataset("cifar10", str(tmp_path))


def test_a_folder_that_is_no_class_of_the_data_set_is_named(tmp_path, colour):
    write_folder(tmp_path, colour, ["zebra", *KNOWN_SETS["cifar10"].class_names[1:]])
    with pytest.raises(DataError, match="zebra is no class of cifar10"):
        load_dataset("cifar10", str(tmp_path))


def write_named_parquet(folder, parts, names):
    """Parquet files whose schema names the classes, as the hub's do."""
    write_parquet(folder, parts)
    described = {"info": {"features": {"label": {"names": list(names), "_type": "ClassLabel"}}}}
    for path in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(path).replace_schema_metadata({"huggingface": json.dumps(described)}), path)


def test_labels_follow_the_names_in_the_schema(tmp_path, colour):
    """A copy that counts its classes in another order is the same data set."""
    backwards = {name: (images, 9 - labels) for name, (images, labels) in colour.items()}
    write_named_parquet(tmp_path, backwards, reversed(KNOWN_SETS["cifar10"].class_names))
    assert_holds(load_dataset("cifar10", str(tmp_path)), colour)


def test_a_schema_that_names_the_classes_of_other_data_is_refused(tmp_path, grey):
    write_named_parquet(tmp_path, grey, KNOWN_SETS["fashion_mnist"].class_names)
    with pytest.raises(DataError, match=r"T-shirt/top is no class of mnist .*-e images"):
        load_dataset("mnist", str(tmp_path))


def test_coloured_pictures_are_not_taken_for_a_grey_set(tmp_path):
    write_parquet(tmp_path, {"train": part(TRAIN, (3, 28, 28), 1), "test": part(TEST, (3, 28, 28), 2)})
    with pytest.raises(DataError, match=r"row 0 is in colour, but the pictures of mnist are grey.*-e images"):
        load_dataset("mnist", str(tmp_path))


def test_a_file_in_place_of_a_folder_is_told(tmp_path, grey):
    write_idx(tmp_path, grey)
    with pytest.raises(DataError, match=f"is a file: type -P data_dir={tmp_path}"):
        load_dataset("mnist", str(tmp_path / "train-images-idx3-ubyte"))


def test_pictures_of_another_size_are_not_taken_for_the_known_set(tmp_path, colour):
    write_parquet(tmp_path, colour)
    with pytest.raises(DataError, match=r"row 0 is 32x32, but the pictures of mnist are 28x28.*-e images"):
        load_dataset("mnist", str(tmp_path))


def test_a_folder_called_like_another_data_set_is_refused(tmp_path, grey):
    write_idx(tmp_path / "fashion-mnist", grey)
    with pytest.raises(DataError, match="called like the data set fashion_mnist, but mnist is asked for"):
        load_dataset("mnist", str(tmp_path / "fashion-mnist"))


def test_an_empty_part_is_refused(tmp_path, grey):
    grey["test"] = (grey["test"][0][:0], grey["test"][1][:0])
    write_idx(tmp_path, grey)
    with pytest.raises(DataError, match="mnist has no test samples"):
        load_dataset("mnist", str(tmp_path))


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(SettingsError, match=r"no data set 'cifar'.*cifar10"):
        load_dataset("cifar")


def test_a_negative_image_size_is_refused():
    with pytest.raises(SettingsError, match="image_size=-8"):
        load_dataset("digits", image_size=-8)


def test_the_names_are_the_entry_points():
    assert dataset_names() == ["digits", "mnist", "fashion_mnist", "kmnist", "cifar10", "ferplus", "images"]


def test_every_error_is_one_line(tmp_path, grey):
    write_idx(tmp_path, grey)
    cut(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises(DataError) as caught:
        load_dataset("mnist", str(tmp_path))
    assert "\n" not in str(caught.value)
