"""The last step: the classifier is fine-tuned on what people said of its failures, beside two controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import mlflow
import numpy as np
import pyarrow as pa
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from numpy.typing import NDArray

from actionflow.analysis.annotation import Verdict, agreement
from actionflow.analysis.scenarios import Scenarios
from actionflow.labelling import classes_in, how_to_label, judged, keep_labels, labels_for, read_csv, scenarios_in
from actionflow.present.mending import Tuned, mending_table, trade_off
from actionflow.present.rows import text_table
from actionflow.session import say
from actionflow.store import layout, parquet
from actionflow.store.finding import find_runs
from actionflow.store.reading import StoredRun
from actionflow.store.showing import log_table
from actionflow.tracking.launching import nested_run
from actionflow.tracking.mending.chain import FINISHED, Chain, StepRun
from actionflow.tracking.mending.models import Patient, pair_of
from actionflow.tracking.vision_run import VisionRun
from actionflow.training.data import Samples
from actionflow.training.mending import Failures, FineTuner, Pair, read
from actionflow.training.mending.settings import PEOPLE, SOURCE, CorrectStep

BEFORE, CONTROL, RAW, SCENARIOS = "before", "control: data alone", "raw counterexamples", "scenarios"
# What keeps the samples to tune on, to test with and those that people saw apart.
TUNE, TEST = 1, 2
ACCURACIES = ("validation", "test", "scenarios", "scenarios_tuned_on")

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Lessons:
    """What there is to tune on, and what tuning is judged by."""

    scenarios: Failures
    raw: Failures
    held_out: Failures


def correct(chain: Chain, step: CorrectStep) -> str:
    """Mend the classifier; return the id of the step's run. That no scenario is a failure is a result."""
    patient = Patient.of(chain.classifier, step.data_dir)
    distilled = chain.needed("distill")
    pair = pair_of(_built_on(distilled, "vae_run"), patient, step)
    scenarios = scenarios_in(distilled)
    verdicts = _verdicts(chain, distilled, scenarios, step) if scenarios else []
    with chain.step("correct", step) as run:
        _log_verdicts(run, verdicts, patient, step)
        failures = [each for each in verdicts if each.is_failure]
        if not failures:
            _close(run, f"{len(scenarios)} scenarios, none of them a failure: there is nothing to mend.")
            return run.run_id
        lessons = _lessons(distilled, pair, scenarios, failures, step)
        _mend(run, chain, patient, lessons, step, len(failures))
        return run.run_id


def _built_on(distilled: StoredRun, what: str) -> StoredRun:
    """The run of an earlier step that these scenarios come from, be there a newer one or not."""
    return find_runs([distilled.description()[what]], distilled.client)[0]


def _verdicts(chain: Chain, distilled: StoredRun, scenarios: Rows, step: CorrectStep) -> list[Verdict]:
    """What people or the sources say; a CSV is kept as the word of a person first."""
    if step.labels not in (PEOPLE, SOURCE):
        labels = read_csv(step.labels, scenarios, classes_in(distilled))
        say(keep_labels(chain.client, distilled, labels, "csv").told + ".")
    by = SOURCE if step.labels == SOURCE else PEOPLE
    said = labels_for(chain.client, distilled)
    return judged(scenarios, said, by, step.rho, step.unlabelled == "skip", how_to_label(distilled))


def _log_verdicts(run: StepRun, verdicts: Sequence[Verdict], patient: Patient, step: CorrectStep) -> None:
    columns: dict[str, Sequence[Any]] = {
        "scenario": [each.scenario for each in verdicts],
        "verdict": [each.told for each in verdicts],
        "label": [None if each.label is None else patient.names[each.label] for each in verdicts],
        "labelled_samples": [each.labelled for each in verdicts],
        "misread_samples": [each.wrong for each in verdicts],
        "annotators": [", ".join(each.annotators) for each in verdicts],
        "agreement": [float(np.mean(each.agreement)) for each in verdicts],
    }
    log_table(run.client, run.run_id, columns, "verdicts.json")
    failures = sum(each.is_failure for each in verdicts)
    mlflow.log_metrics({"scenarios": len(verdicts), "failure_scenarios": failures})
    for name, (mean, _) in agreement(verdicts).items():
        mlflow.log_metric(f"agreement/{name}", mean)
    say(f"{len(verdicts)} scenarios, labelled by {_who(step)}: {failures} are failures.{_agreed(verdicts, step)}")


def _agreed(verdicts: Sequence[Verdict], step: CorrectStep) -> str:
    if step.labels == SOURCE or max((len(each.annotators) for each in verdicts), default=0) < 2:
        return ""
    told = [
        f"{name} {100 * mean:.1f}" + (f" ± {100 * error:.1f}" if error is not None else "")
        for name, (mean, error) in agreement(verdicts).items()
    ]
    return f" Annotators agree (%): {', '.join(told)}."


def _lessons(
    distilled: StoredRun, pair: Pair, scenarios: Rows, failures: Sequence[Verdict], step: CorrectStep
) -> Lessons:
    """As many pictures of every failure scenario to tune on as to test with; as many counterexamples as the former."""
    numbers = {row["scenario"]: place for place, row in enumerate(scenarios)}
    mixture = _mixture(scenarios)
    tau = float(distilled.description()["tau"])

    def drawn(purpose: int) -> Failures:
        images = [
            pair.decode(
                mixture.draw(
                    numbers[each.scenario],
                    step.drawn,
                    tau,
                    np.random.default_rng([step.seed, purpose, each.scenario]),
                )
            )
            for each in failures
        ]
        labels = np.repeat([each.label for each in failures if each.label is not None], step.drawn)
        return Failures(np.concatenate(images), labels.astype(np.int64))

    tuned_on = drawn(TUNE)
    return Lessons(tuned_on, _raw(_built_on(distilled, "identify_run"), pair, len(tuned_on), step), drawn(TEST))


def _mixture(scenarios: Rows) -> Scenarios:
    means = np.array([row["mean"] for row in scenarios])
    width = means.shape[1]
    return Scenarios(
        weights=np.array([row["weight"] for row in scenarios]),
        means=means,
        covariances=np.array([row["covariance"] for row in scenarios]).reshape(-1, width, width),
        members=np.empty(0, np.int64),
    )


def _raw(identified: StoredRun, pair: Pair, count: int, step: CorrectStep) -> Failures:
    """Counterexamples as they were found, with the labels of the samples around which they were."""
    paths = identified.files_now(layout.COUNTEREXAMPLES)
    table = pa.concat_tables([parquet.read(path, ["label", "code"]) for path in paths])
    random = np.random.default_rng([step.seed, TUNE])
    chosen = np.sort(random.choice(table.num_rows, min(count, table.num_rows), replace=False))
    taken = table.take(chosen)
    codes: NDArray[np.float32] = np.stack(taken["code"].to_numpy())
    return Failures(pair.decode(codes), taken["label"].to_numpy().astype(np.int64))


def _mend(run: StepRun, chain: Chain, patient: Patient, lessons: Lessons, step: CorrectStep, failures: int) -> None:
    judge = partial(_judged, patient=patient, lessons=lessons, step=step)
    before = judge(BEFORE, None, _tuner(patient, None, 0.0, step))
    done = _done(run)
    tune = partial(_tuned, done=done, judge=judge, patient=patient, step=step, run=run)
    control = tune(CONTROL, None, 0.0)
    sweeps = {
        kind: [tune(kind, failures, weight) for weight in step.weights()]
        for kind, failures in ((SCENARIOS, lessons.scenarios), (RAW, lessons.raw))
    }
    best = {kind: chosen(rows, step.cost) for kind, rows in sweeps.items()}
    rows = [before, best[RAW], best[SCENARIOS], control]
    mended = _record_mended(chain, patient, lessons, best[SCENARIOS], step)
    _report(run, chain, rows, sweeps, step, mended, failures, patient)


def chosen(rows: Sequence[Tuned], cost: float) -> Tuned:
    """The lambda that validation prefers; of those within `cost` of the best, the one that mends most.
    What it mends is counted on what was tuned on: held-out scenarios and the test set are never looked at.
    """
    best = max(row.validation for row in rows)
    within = [row for row in rows if row.validation >= best - cost - 1e-12]
    return max(within, key=lambda row: (row.scenarios_tuned_on, row.validation, -(row.weight or 0.0)))


def _tuner(patient: Patient, failures: Failures | None, weight: float, step: CorrectStep) -> FineTuner:
    return FineTuner(patient.classifier(), step.training(patient.settings), failures, weight)


def _judged(
    kind: str, weight: float | None, tuner: FineTuner, patient: Patient, lessons: Lessons, step: CorrectStep
) -> Tuned:
    """The accuracies of a classifier as it is now."""

    def accuracy(of: Samples | Failures) -> float:
        return read(tuner.model, of.images, tuner.device).accuracy(of.labels)

    return Tuned(
        tuned_on=kind,
        weight=weight,
        validation=accuracy(patient.splits["val"]),
        test=accuracy(patient.splits["test"]),
        scenarios=accuracy(lessons.held_out),
        scenarios_tuned_on=accuracy(lessons.scenarios),
        epoch=max(tuner.stopping.best_epoch, 0),
    )


def _tuned(
    kind: str,
    failures: Failures | None,
    weight: float,
    *,
    done: dict[tuple[str, float], Tuned],
    judge: Callable[[str, float | None, FineTuner], Tuned],
    patient: Patient,
    step: CorrectStep,
    run: StepRun,
) -> Tuned:
    """One fine-tuning in a run of its own; one that an earlier process finished is not done again."""
    if (kind, weight) in done:
        return done[kind, weight]
    tuner = _tuner(patient, failures, weight, step)
    name = f"{kind}, lambda {weight:g}" if weight else kind
    with mlflow.start_run(nested=True, run_name=name):
        _fine_tune(tuner, patient)
        row = judge(kind, weight or None, tuner)
        mlflow.set_tags({layout.TAG_KIND: "mending", MLFLOW_PARENT_RUN_ID: run.run_id})
        mlflow.log_params({"tuned_on": kind, "lambda": weight, **step.training(patient.settings).as_dict()})
        numbers = {name: value for name, value in asdict(row).items() if isinstance(value, float | int)}
        mlflow.log_metrics({name: value for name, value in numbers.items() if name != "weight"})
    say(f"{name}: validation {row.validation:.4f}, test {row.test:.4f}, scenarios {row.scenarios:.4f}")
    return row


def _fine_tune(tuner: FineTuner, patient: Patient) -> None:
    """All epochs, and back to the one of the best validation accuracy."""
    for _ in tuner.epochs():
        tuner.train(patient.splits["train"], [])
        tuner.end_epoch(tuner.evaluate(patient.splits["val"], []))
    tuner.restore_best()


def _done(run: StepRun) -> dict[tuple[str, float], Tuned]:
    """What an interrupted step has tuned already."""
    if not run.resumes:
        return {}
    condition = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{run.run_id}' and status = '{FINISHED}'"
    found = run.client.search_runs([run.run.info.experiment_id], condition, max_results=1000)
    rows = {}
    for each in found:
        with suppress(KeyError):  # the mended classifier's own run has no lambda
            kind, weight = each.data.params["tuned_on"], float(each.data.params["lambda"])
            numbers = {name: each.data.metrics[name] for name in ACCURACIES}
            rows[kind, weight] = Tuned(kind, weight or None, **numbers, epoch=int(each.data.metrics["epoch"]))
    return rows


def _record_mended(chain: Chain, patient: Patient, lessons: Lessons, best: Tuned, step: CorrectStep) -> str:
    """The chosen fine-tuning once more, recorded as every training is: the same seed makes the same weights."""
    tuner = _tuner(patient, lessons.scenarios, best.weight or 0.0, step)
    name = f"{chain.classifier.name} mended"
    with nested_run(VisionRun, step.training(patient.settings), name) as run:
        run.client.set_tag(run.run_id, layout.TAG_MENDED, chain.classifier.run_id)
        run.begin(patient.dataset, patient.splits, tuner, {"mended": {"run": chain.classifier.run_id, **asdict(best)}})
        for _ in tuner.epochs():
            passes = {"train": tuner.train(patient.splits["train"], run.watch_training())}
            passes |= {split: tuner.evaluate(patient.splits[split], run.watch(split)) for split in ("val", "test")}
            tuner.end_epoch(passes["val"])
            run.end_epoch(tuner, passes)
        tuner.restore_best()
        run.finish(tuner)
        return run.run_id


def _report(
    run: StepRun,
    chain: Chain,
    rows: Sequence[Tuned],
    sweeps: dict[str, list[Tuned]],
    step: CorrectStep,
    mended: str,
    failures: int,
    patient: Patient,
) -> None:
    table = mending_table(rows)
    before, _, best, control = rows
    title = f"{chain.classifier.name}: {failures} failure scenarios, labelled by {_who(step)}"
    figure = trade_off(title, before, control, list(sweeps.values()))
    run.client.log_figure(run.run_id, figure, "trade_off.png")
    log_table(run.client, run.run_id, table.to_pydict(), "mending.json")
    every = [row for each in sweeps.values() for row in each]
    log_table(run.client, run.run_id, mending_table([before, control, *every]).to_pydict(), "sweep.json")
    mlflow.log_metrics({f"mended/{name}": getattr(best, name) for name in ("validation", "test", "scenarios")})
    halved = " The official test set was halved into validation and test." if patient.is_halved else ""
    text = "\n\n".join(
        [
            title + ".",
            text_table(table),
            f"lambda {best.weight:g} was chosen on validation.{halved} The mended classifier is run {mended[:8]}:",
            f"actionflow compare {chain.classifier.run_id[:8]} {mended[:8]}",
        ]
    )
    run.client.log_text(run.run_id, text + "\n", "mending.txt")
    run.client.set_tag(run.run_id, layout.TAG_MENDED_RUN, mended)
    print(text)
    _close(run, text)


def _close(run: StepRun, told: str) -> None:
    run.client.set_tag(run.run_id, "mlflow.note.content", told)
    if "\n" not in told:
        say(told)


def _who(step: CorrectStep) -> str:
    if step.labels == SOURCE:
        return "the labels of their source samples (nobody looked at them)"
    return "people"
