"""torchvision's download, from a real server on this machine that has it, has half of it, or is not there."""

import gzip
import hashlib
import http.server
import struct
import threading

import numpy as np
import pytest

from actionflow.errors import DataError
from actionflow.training.data import load_dataset

NAMES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
NOBODY = "http://127.0.0.1:9/"  # the discard port: nothing listens there


def idx_files():
    values = [np.full((20, 28, 28), 7), np.arange(20) % 10, np.full((10, 28, 28), 9), np.arange(10)]
    for name, array in zip(NAMES, values, strict=True):
        header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        yield f"{name}-ubyte.gz", gzip.compress(header + array.astype(np.uint8).tobytes())


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A folder that torchvision downloads MNIST from."""
    datasets = pytest.importorskip("torchvision.datasets")
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, content in idx_files():
        (folder / name).write_bytes(content)
    resources = [(path.name, hashlib.md5(path.read_bytes()).hexdigest()) for path in sorted(folder.iterdir())]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *request: Quiet(*request, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(datasets.MNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_network(monkeypatch):
    datasets = pytest.importorskip("torchvision.datasets")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(datasets.MNIST, "mirrors", [NOBODY])
    monkeypatch.setattr(datasets.CIFAR10, "url", NOBODY + "cifar-10-python.tar.gz")


def test_what_is_not_there_is_downloaded_and_found_the_next_time(tmp_path, mirror, capfd):
    first = load_dataset("mnist", str(tmp_path / "data"))
    second = load_dataset("mnist", str(tmp_path / "data"))
    assert first.digest == second.digest
    assert first.source.startswith("torchvision download")
    assert second.source == str(tmp_path / "data" / "MNIST")
    assert capfd.readouterr() == ("", "")


def test_a_download_that_breaks_off_leaves_nothing_behind(tmp_path, mirror):
    half = mirror / "train-labels-idx1-ubyte.gz"
    half.write_bytes(half.read_bytes()[:-5])
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match="its download failed"):
        load_dataset("mnist", str(tmp_path / "data"))
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_data_that_is_nowhere_is_told_in_one_line(tmp_path, no_network, name):
    folder = tmp_path / "data"
    with pytest.raises(DataError) as caught:
        load_dataset(name, str(folder))
    said = str(caught.value)
    assert said.startswith(f"{name} was not found in {folder} or {folder / name}, and its download failed (")
    assert "refused" in said
    assert "-P data_dir=<folder with " in said
    assert "-e digits" in said
    assert "\n" not in said
    assert not folder.exists()


def test_ferplus_says_that_it_cannot_be_downloaded(tmp_path):
    with pytest.raises(DataError, match=r"ferplus was not found .*registering.*fer2013\.csv and fer2013new\.csv"):
        load_dataset("ferplus", str(tmp_path))


def test_a_folder_that_lacks_files_is_not_filled_up_by_a_download(tmp_path, mirror):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(DataError, match="lacks train-labels"):
        load_dataset("mnist", str(tmp_path))


def test_the_default_folder_that_lacks_files_is_filled_up(tmp_path, mirror, monkeypatch):
    monkeypatch.setenv("ACTIONFLOW_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-images-idx3-ubyte").write_bytes(b"")
    assert len(load_dataset("mnist").parts["train"]) == 20


def test_the_default_folder_is_the_one_that_the_environment_names(tmp_path, no_network, monkeypatch):
    monkeypatch.setenv("ACTIONFLOW_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"not found in .*elsewhere"):
        load_dataset("mnist")
