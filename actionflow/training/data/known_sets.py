"""The data sets that are known by name: their classes, their shape, what their folders are called."""

from __future__ import annotations

from dataclasses import dataclass

from actionflow.errors import DataError

NUMBERS = tuple("0123456789")


@dataclass(frozen=True)
class KnownSet:
    """A public data set."""

    name: str
    class_names: tuple[str, ...]
    channels: int
    side: int  # height and width
    folders: frozenset[str]  # what people call its folder, as `plain` spells it
    forms: tuple[str, ...]  # the forms it is looked for in, in this order
    files: str  # the files to get, for a person who has none
    torchvision: str = ""  # torchvision's class that downloads it, if there is one

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.side, self.side

    def label_of(self, class_name: str, where: object) -> int:
        """The label of a class that is called by its name or its number."""
        numbered = {str(label): label for label in range(len(self.class_names))}
        named = {plain(name): label for label, name in enumerate(self.class_names)}
        label = (numbered | named).get(plain(class_name))
        if label is None:
            raise DataError(
                f"{where}: {class_name} is no class of {self.name} (its classes: {', '.join(self.class_names)}). "
                "For data of your own type -e images -P data_dir=<folder>."
            )
        return label


def plain(name: str) -> str:
    """A name as everybody would spell it.

    >>> plain("Fashion-MNIST") == plain("fashion_mnist")
    True
    """
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _like_mnist(
    name: str, torchvision: str, class_names: tuple[str, ...], forms: tuple[str, ...] = ("idx",)
) -> KnownSet:
    return KnownSet(
        name=name,
        class_names=class_names,
        channels=1,
        side=28,
        folders=frozenset({plain(name)}),
        forms=(*forms, "parquet", "folder"),
        files="train-images-idx3-ubyte.gz and its three companions",
        torchvision=torchvision,
    )


_ALL = (
    _like_mnist("mnist", "MNIST", NUMBERS),
    _like_mnist(
        "fashion_mnist",
        "FashionMNIST",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    _like_mnist("kmnist", "KMNIST", ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"), ("idx", "npz")),
    KnownSet(
        name="cifar10",
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        channels=3,
        side=32,
        folders=frozenset({"cifar10", "cifar10batchespy"}),
        forms=("batches", "archive", "parquet", "folder"),
        files="cifar-10-python.tar.gz",
        torchvision="CIFAR10",
    ),
    KnownSet(
        name="ferplus",
        class_names=("neutral", "happiness", "surprise", "sadness", "anger", "disgust", "fear", "contempt"),
        channels=1,
        side=48,
        folders=frozenset({"ferplus", "fer2013", "fer"}),
        forms=("ferplus",),
        files="fer2013.csv and fer2013new.csv",
    ),
)
KNOWN_SETS = {known.name: known for known in _ALL}
