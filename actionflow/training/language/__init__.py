"""Language models by Hugging Face: loaded or made small, fed with texts, trained, asked to write.

Importing this package takes seconds: transformers does. Only text trainings import it.
"""

from actionflow.training.language.encoding import Encoded, encode
from actionflow.training.language.models import LanguageModel, load_language_model
from actionflow.training.language.tasks import Task, task_of
from actionflow.training.language.trainer import make_trainer

__all__ = ["Encoded", "LanguageModel", "Task", "encode", "load_language_model", "make_trainer", "task_of"]
