"""What a person looks at is pixel by pixel what the model saw."""

import io

import numpy as np
import pytest
from PIL import Image

from actionflow.training.data.png import png_images


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_a_png_holds_the_very_pixels(channels, mode):
    images = np.random.RandomState(0).randint(0, 256, (4, channels, 6, 9)).astype(np.uint8)
    for image, content in zip(images, png_images(images), strict=True):
        picture = Image.open(io.BytesIO(content))
        assert (picture.format, picture.mode, picture.size) == ("PNG", mode, (9, 6))
        np.testing.assert_array_equal(np.asarray(picture).reshape(6, 9, channels), image.transpose(1, 2, 0))


def test_no_images_make_no_files():
    assert png_images(np.empty((0, 1, 8, 8), np.uint8)) == []
