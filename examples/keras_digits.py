"""Record a Keras model: the callback passes over the data after every epoch, early stopping uses what it found.

pip install keras
KERAS_BACKEND=torch python examples/keras_digits.py
"""

import os

# Keras takes TensorFlow when nothing else is said; ActionFlow's own dependency is PyTorch.
os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import actionflow
from actionflow.integrations.keras import ActionCallback

keras.utils.set_random_seed(0)
pixels, labels = load_digits(return_X_y=True)
places = range(len(labels))
x, x_val, y, y_val, _, val_places = train_test_split(pixels / 16, labels, places, test_size=397, random_state=0)

model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10, activation="softmax")]
)
model.compile("adam", loss="sparse_categorical_crossentropy")

# No validation_data in fit: the callback's own pass gives val_loss to the callbacks after it.
recording = ActionCallback({"val": (x_val, y_val)}, sample_ids={"val": val_places})
stopping = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)
model.fit(x, y, epochs=8, batch_size=64, verbose=0, callbacks=[recording, stopping])

print(actionflow.query("hardest", recording.run_id, k=5).to_pandas().to_string(index=False))
