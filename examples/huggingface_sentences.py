"""Record a Hugging Face Trainer: which sentences of Python's own documentation are hard to place?

python examples/huggingface_sentences.py
"""

import ast
import inspect
import logging
import statistics
import tarfile
import threading

from datasets import Dataset
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, Trainer, TrainingArguments

import actionflow
from actionflow.integrations.huggingface import ActionCallback

MODULES = [logging, statistics, tarfile, threading]


def sentences(module):
    """What the docstrings of a module say."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, documented)]
    text = " ".join(ast.get_docstring(node) or "" for node in nodes)
    return [sentence for sentence in " ".join(text.split()).split(". ") if len(sentence) > 20]


said = [(text, label) for label, module in enumerate(MODULES) for text in sentences(module)]
texts, labels = map(list, zip(*said, strict=True))
words = BertWordPieceTokenizer()
words.train_from_iterator(texts, vocab_size=2000, show_progress=False)
tokenizer = BertTokenizer(vocab=words.get_vocab())
tokens = tokenizer(texts, truncation=True, max_length=64)
# Every sentence carries its place in the whole, so that it is found again after splitting.
data = Dataset.from_dict({**tokens, "labels": labels, "sample_id": list(range(len(texts)))})
parts = data.train_test_split(0.25, seed=0)

sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128}
schedule = {"num_train_epochs": 5, "learning_rate": 3e-3, "eval_strategy": "epoch", "save_strategy": "no"}
schedule |= {"per_device_train_batch_size": 32, "per_device_eval_batch_size": 64}
trainer = Trainer(
    BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=len(MODULES), **sizes)),
    TrainingArguments("trained", **schedule),
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
    processing_class=tokenizer,
)
recording = ActionCallback(trainer)
trainer.add_callback(recording)
trainer.train()

hardest = actionflow.query("hardest", recording.run_id, k=5).to_pandas()
print(hardest.assign(text=[texts[number][:60] for number in hardest["sample_id"]]).to_string(index=False))
