"""VoG and GraNd: against plain loops over samples, through trainings that are killed, and where they cannot be."""

from types import SimpleNamespace

import made_up_texts
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from conftest import Training, train, train_text
from torch import nn
from torch.nn.functional import cross_entropy

import actionflow
from actionflow.errors import ActionFlowError
from actionflow.present.progress import Progress
from actionflow.store.sending import Sender
from actionflow.tracking.gradients import GradientScores
from actionflow.training.data import Samples
from actionflow.training.gradients import KeptWeights, Pictures, check_gradients, gradient_scores, kept_epochs
from actionflow.training.gradients.scoring import within_class
from actionflow.training.models import build_model

BOTH = ("vog", "grand")
CPU = torch.device("cpu")
EPOCHS = 4
GROUPS = {"vog": [0, 1, 2, 3], "vog_early": [0, 1, 2], "vog_late": [1, 2, 3]}
COLUMNS = [*GROUPS, "grand"]


def pictures(count, channels, size, classes=3):
    draw = np.random.default_rng(1)
    return Samples(
        sample_ids=np.arange(100, 100 + count),
        labels=np.arange(count) % classes,
        keys=[str(n) for n in range(count)],
        images=draw.integers(0, 256, (count, channels, size, size), np.uint8),
    )


def trained(model, folder):
    """Weights of four epochs, as a training would leave them: every number has moved, running statistics too."""
    kept = KeptWeights(folder)
    for epoch in range(EPOCHS):
        torch.manual_seed(epoch)
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.1 * value.std() * torch.randn_like(value) if value.numel() > 1 else 0)
            for name, value in model.named_buffers():
                if value.is_floating_point() and name.endswith(("mean", "var")):
                    value.mul_(1 + 0.1 * torch.rand_like(value))
        kept.keep(epoch, model)
    return kept


def smooth(model):
    """The same network without kinks: at one of relu's, the last bit of a float32 decides what the gradient is."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.SiLU())
    return model


def loaded(model, kept, epoch):
    model.load_state_dict(kept.load(epoch, CPU), strict=False)
    return model.eval()


def z_scores(values, labels):
    return [(v - values[labels == c].mean()) / values[labels == c].std() for v, c in zip(values, labels, strict=True)]


def norm_of(model, loss):
    gradients = torch.autograd.grad(loss, [each for each in model.parameters() if each.requires_grad])
    # In float64: a float32 norm of so many numbers is off by 1e-5 itself.
    return float(torch.cat([each.flatten().double() for each in gradients]).norm())


def spread(gradients, chosen):
    """The definition: the standard deviation over epochs, then the mean over what the sample is made of."""
    return float(torch.stack(gradients)[chosen].std(dim=0, correction=0).mean())


MODELS = {"keras_cnn": (1, 8), "resnet_v2": (3, 8)}


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_pictures_are_those_of_a_plain_loop(name, tmp_path):
    channels, size = MODELS[name]
    torch.manual_seed(0)
    model = smooth(build_model(name, channels, (size, size), 3))
    kept, samples = trained(model, tmp_path), pictures(21, channels, size)
    images, labels = torch.from_numpy(samples.images).float() / 255, torch.from_numpy(samples.labels)
    gradients, norms = [[] for _ in samples.labels], [[] for _ in samples.labels]
    for epoch in range(EPOCHS):
        loaded(model, kept, epoch)
        for place, label in enumerate(labels):
            one = images[place : place + 1].clone().requires_grad_()
            logits = model(one)
            gradients[place].append(torch.autograd.grad(logits[0, label], one, retain_graph=True)[0])
            if epoch < 3:
                norms[place].append(norm_of(model, cross_entropy(logits, label[None])))
    found = gradient_scores(Pictures(model, samples, CPU), kept, EPOCHS - 1, BOTH)
    assert list(found) == COLUMNS
    for group, chosen in GROUPS.items():
        spreads = np.array([spread(each, chosen) for each in gradients])
        np.testing.assert_allclose(found[group], z_scores(spreads, samples.labels), atol=1e-5)
    np.testing.assert_allclose(found["grand"], np.mean(norms, axis=1), rtol=1e-5)


@pytest.fixture(scope="module")
def feelings(tmp_path_factory):
    return made_up_texts.emotion(tmp_path_factory.mktemp("corpus"), train=36, held_out=12)


@pytest.fixture(scope="module")
def language(feelings):
    """A small language model and sentences of different length, as a text training has them."""
    from actionflow.training.language import encode, load_language_model, task_of
    from actionflow.training.settings import TextSettings
    from actionflow.training.texts import OwnColumns, load_texts

    dataset = load_texts("emotion", str(feelings), OwnColumns("", "text", "", "label", ""))
    torch.manual_seed(0)
    language = load_language_model("tiny", dataset)
    samples = dataset.parts["train"]
    encoded = encode(samples, dataset, language, TextSettings(model="tiny"))
    collator = task_of(dataset, language, {"train": samples}, {"train": encoded}).collator
    return SimpleNamespace(model=language.model, encoded=encoded, labels=samples.labels, collator=collator)


def test_scores_of_texts_are_those_of_a_plain_loop_without_padding(language, tmp_path):
    from actionflow.training.language.gradients import Texts

    model, items = language.model, language.encoded.items
    kept = trained(model, tmp_path)
    raw, norms = [], []
    for item, label in zip(items, torch.from_numpy(language.labels), strict=True):
        words = torch.tensor([item["input_ids"]])
        gradients, own_norms = [], []
        for epoch in range(EPOCHS):
            loaded(model, kept, epoch)
            embedded = model.get_input_embeddings()(words).detach().requires_grad_()
            gradients.append(torch.autograd.grad(model(inputs_embeds=embedded).logits[0, label], embedded)[0])
            own_norms.append(norm_of(model, cross_entropy(model(input_ids=words).logits, label[None])))
        raw.append(spread(gradients, GROUPS["vog"]))
        norms.append(np.mean(own_norms[:3]))
    reader = Texts(model, language.encoded, language.labels, language.collator)
    found = gradient_scores(reader, kept, EPOCHS - 1, BOTH)
    order = np.argsort(reader.sample_ids)
    np.testing.assert_allclose(found["vog"][order], z_scores(np.array(raw), language.labels), atol=1e-5)
    np.testing.assert_allclose(found["grand"][order], norms, rtol=1e-5)


def test_a_model_that_takes_one_sample_at_a_time_gets_the_same_norms(language, tmp_path, monkeypatch):
    """A mask whose values are looked at is nothing that vmap could batch: then the samples go alone."""
    from actionflow.training.language.gradients import Texts

    kept = trained(language.model, tmp_path)
    together = Texts(language.model, language.encoded, language.labels, language.collator)
    alone = Texts(language.model, language.encoded, language.labels, language.collator)
    monkeypatch.setattr(alone, "_masks_whole", False)
    found = [gradient_scores(reader, kept, EPOCHS - 1, ("grand",))["grand"] for reader in (together, alone)]
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_small_memory_changes_nothing(tmp_path, monkeypatch):
    from actionflow.training.gradients import scoring

    torch.manual_seed(0)
    model = build_model("keras_cnn", 1, (8, 8), 3)
    kept, reader = trained(model, tmp_path), Pictures(model, pictures(11, 1, 8), CPU)
    whole = gradient_scores(reader, kept, EPOCHS - 1, BOTH)
    monkeypatch.setattr(scoring, "NUMBERS_AT_ONCE", 2 * 64 * EPOCHS)
    for name, values in gradient_scores(reader, kept, EPOCHS - 1, BOTH).items():
        np.testing.assert_allclose(values, whole[name], atol=1e-5)


def test_a_class_of_one_and_a_class_of_equals_have_no_deviation():
    values, labels = np.array([0.1, 5.0, 0.1, 1.0, 3.0, 0.1]), np.array([4, 7, 4, 2, 2, 4])
    np.testing.assert_allclose(within_class(values, labels), [0, 0, 0, -1, 1, 0])
    assert len(within_class(np.zeros(0), np.zeros(0, np.int64))) == 0


def test_what_is_kept_follows_from_the_epoch_before_and_stays_small():
    before = set()
    for last in range(200):
        chosen = kept_epochs(last)
        assert set(chosen.every) <= before | {last}
        assert len(chosen.every) <= 10
        assert chosen.early == tuple(range(min(3, last + 1)))
        assert chosen.late[-1] == last
        before = set(chosen.every)


def test_files_go_one_epoch_behind(tmp_path):
    kept = KeptWeights(tmp_path)
    for epoch in range(8):
        kept.keep(epoch, nn.Linear(2, 2))
    there = {int(path.stem.removeprefix("epoch-")) for path in tmp_path.iterdir()}
    assert there == {*kept_epochs(7).every, *kept_epochs(6).every}
    assert kept.go_on_after(6) == []


class Lookup(nn.Module):
    """Reads a pixel as the number of a word."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(256, 3)

    def forward(self, images):
        return self.table((images * 255).long()).mean(dim=(1, 2, 3))


def test_a_model_whose_input_has_no_gradient_is_refused():
    reader = Pictures(Lookup(), pictures(4, 1, 8), CPU)
    with pytest.raises(
        ActionFlowError, match=r"gradients=vog needs a model .*by its input, and lookup is none.*leave vog"
    ):
        check_gradients(reader, BOTH, "lookup")
    check_gradients(reader, ("grand",), "lookup")


# Through trainings

SHORT = {"limit": 160, "epochs": 4, "stop_patience": 0, "seed": 2}


@pytest.fixture(scope="module")
def run_id(module_store):
    return train(**SHORT, gradients="vog,grand")


@pytest.fixture(scope="module")
def plain_id(module_store):
    """The same training without gradients."""
    return train(**SHORT)


def scores_of(store, run_id, split="val"):
    return pq.read_table(store.artifacts(run_id) / "actionflow" / "scores" / f"{split}.parquet").drop_columns(
        ["run_id"]
    )


def test_every_recorded_sample_has_them_and_the_weights_are_gone(module_store, run_id):
    for split in ("train", "val"):
        table = scores_of(module_store, run_id, split)
        for name in COLUMNS:
            assert np.isfinite(table[name].to_numpy()).all()
        labels, values = table["label"].to_numpy(), table["vog"].to_numpy()
        assert [values[labels == label].mean() for label in range(10)] == pytest.approx([0] * 10, abs=1e-9)
        assert values.std() == pytest.approx(1)
        assert table["grand"].to_numpy().min() > 0
    assert not list((module_store.folder / "home").glob("checkpoints/*"))


def test_they_change_nothing_else(module_store, run_id, plain_id):
    for split in ("train", "val"):
        plain = scores_of(module_store, plain_id, split)
        assert all(plain[name].null_count == len(plain) for name in COLUMNS)
        assert scores_of(module_store, run_id, split).drop_columns(COLUMNS).equals(plain.drop_columns(COLUMNS))


def test_they_are_asked_for_like_any_score(run_id, plain_id):
    rows = actionflow.query("accuracy_by_score", runs=run_id, score="vog", bins=4).to_pylist()
    assert sum(row["samples"] for row in rows) == 160
    assert actionflow.query("accuracy_by_score", runs=plain_id, score="vog", bins=4).num_rows == 0
    assert actionflow.curriculum(run_id, score="grand").endswith("easy-first-grand.parquet")
    with pytest.raises(ActionFlowError, match=r"has no grand .*-P gradients=grand"):
        actionflow.curriculum(plain_id, score="grand")


def test_files_of_before_are_read_as_having_none(module_store, run_id, plain_id):
    paths = [
        module_store.artifacts(plain_id) / "actionflow" / "scores" / f"{split}.parquet" for split in ("train", "val")
    ]
    whole = [path.read_bytes() for path in paths]
    for path in paths:
        pq.write_table(pq.read_table(path).drop_columns(COLUMNS), path)
    try:
        sql = "select run_id, count(*) as n, count(vog) as vog, count(grand) as grand from scores group by run_id"
        assert actionflow.query(sql, runs=plain_id).to_pylist() == [
            {"run_id": plain_id, "n": 320, "vog": 0, "grand": 0}
        ]
        rows = {row["run_id"]: row["vog"] for row in actionflow.query(sql, runs=[run_id, plain_id]).to_pylist()}
        assert rows == {run_id: 320, plain_id: 0}
    finally:
        for path, content in zip(paths, whole, strict=True):
            path.write_bytes(content)


def test_a_killed_run_ends_with_the_same_gradients(store, module_store, run_id):
    training = Training(store, **SHORT, gradients="vog,grand")
    killed = training.wait_for("checkpoint/epoch-0001.pt")
    training.kill()
    train(resume=killed)
    for split in ("train", "val"):
        assert scores_of(store, killed, split).equals(scores_of(module_store, run_id, split))


def test_weights_that_are_on_another_machine_are_told_of_and_all_else_goes_on(store, capsys):
    begun = GradientScores(("vog", "grand"), "a-run", Progress(epochs=9))
    for epoch in range(3):
        begun.keep(epoch, nn.Linear(2, 2), Sender("a-run", store.client))
    here = GradientScores(("vog", "grand"), "a-run", Progress(epochs=9))
    here.go_on_after(2)
    assert here.more_scores(lambda *_: None) is not None
    there = GradientScores(("vog", "grand"), "another-run", Progress(epochs=9))
    there.go_on_after(2)
    assert there.more_scores(lambda *_: None) is None
    told = capsys.readouterr().err
    assert "after epochs 0, 1, 2 are not on this machine" in told
    assert "vog, vog_early, vog_late, grand stay empty, all else goes on" in told


def test_a_text_training_has_them_too(module_store, feelings):
    run_id = train_text(
        dataset="emotion", data_dir=feelings, model="tiny", epochs=2, learning_rate=0.003, gradients="grand,vog"
    )
    for split, samples in {"train": 36, "val": 12, "test": 12}.items():
        table = scores_of(module_store, run_id, split)
        assert [np.isfinite(table[name].to_numpy()).sum() for name in COLUMNS] == [samples] * 4
    assert not list((module_store.folder / "home").glob("checkpoints/*"))


MISTAKES = {
    "vogg": "gradients must be vog, grand or vog,grand, found vogg",
    "vog;grand": "gradients must be vog, grand or vog,grand, found vog;grand",
}


@pytest.mark.parametrize("asked", MISTAKES)
def test_an_unknown_score_is_refused(store, asked):
    with pytest.raises(SystemExit, match=f"^Error: {MISTAKES[asked]}"):
        train(**SHORT, gradients=asked)


def test_one_epoch_is_no_change(store):
    with pytest.raises(SystemExit, match=r"gradients=vog compares epochs, and epochs is 1: type -P epochs=2"):
        train(limit=64, epochs=1, gradients="vog")


@pytest.mark.parametrize("task", ["samsum", "squad"])
def test_a_task_without_classes_is_refused_before_it_trains(store, tmp_path, task):
    getattr(made_up_texts, task)(tmp_path)
    with pytest.raises(SystemExit, match=rf"gradients=vog needs samples with classes, and those of {task} have none"):
        train_text(dataset=task, data_dir=tmp_path, model="tiny", gradients="vog")
    (run,) = store.client.search_runs([store.experiment])
    assert not store.artifacts(run.info.run_id).exists()
