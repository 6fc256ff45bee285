"""The second step: small changes of training samples that the classifier gets wrong, written part by part."""

from __future__ import annotations

import mlflow
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from actionflow.present.pages.grids import Cell
from actionflow.present.strips import PictureRow, picture_rows
from actionflow.session import say
from actionflow.store import layout, parquet, schema
from actionflow.store.writing import RunWriter
from actionflow.tracking.mending.chain import Chain, StepRun
from actionflow.tracking.mending.models import Patient, pair_of
from actionflow.training.data.png import png_images
from actionflow.training.mending import Found, Noise, search
from actionflow.training.mending.settings import IdentifyStep

# Samples whose finds make one file: what an interrupted search has written it does not do again.
PART = 1024
SHOWN_ROWS, PER_ROW = 4, 10


def identify(chain: Chain, step: IdentifyStep) -> str:
    """Search around every training sample; return the id of the step's run. That nothing is found is a result."""
    patient = Patient.of(chain.classifier, step.data_dir)
    trained = chain.needed("vae")
    pair = pair_of(trained, patient, step)
    samples = patient.splits["train"]
    noise = Noise(step.a, step.b, is_centred=step.noise == "centred")
    with chain.step("identify", step) as run:
        writer = RunWriter(run.run_id, run.client)
        writer.describe({"vae_run": trained.run_id})
        written = set(run.stored().files_now(layout.COUNTEREXAMPLES)) if run.resumes else set()
        names = {path.stem for path in written}
        for part, start in enumerate(range(0, len(samples), PART)):
            if f"part-{part:05d}" in names:
                continue
            random = np.random.default_rng([step.seed, part])
            found = search(
                pair,
                samples.take(np.arange(start, min(start + PART, len(samples)))),
                noise,
                step.steps,
                step.most,
                random,
            )
            _write(writer, chain, part, start * step.most, found)
            say(
                f"{min(start + PART, len(samples)):,} of {len(samples):,} samples: {len(found):,} counterexamples more."
            )
        writer.sender.close()
        _tell(run, patient, len(samples))
        return run.run_id


def _write(writer: RunWriter, chain: Chain, part: int, first: int, found: Found) -> None:
    columns = {
        "counterexample": first + np.arange(len(found)),
        "sample_id": found.sample_ids,
        "label": found.labels,
        "prediction": found.reading.predictions,
        "confidence": found.reading.confidences,
        "image": pa.array(png_images(found.images), pa.binary()),
    }
    facts = {"sources": found.sources, "unread": found.unread}
    writer.log_counterexamples(part, chain.classifier.run_id, columns, found.codes, **facts)


def _tell(run: StepRun, patient: Patient, samples: int) -> None:
    """How much was found, in words, as metrics and as a figure."""
    paths = run.stored().files_now(layout.COUNTEREXAMPLES)
    facts = [schema.stamp_of(parquet.read_schema(path), str(path)) for path in paths]
    table = pa.concat_tables(
        [parquet.read(path, ["sample_id", "label", "prediction", "confidence", "image"]) for path in paths]
    )
    figures = {
        "counterexamples": table.num_rows,
        "samples": samples,
        "samples_with_counterexamples": len(table["sample_id"].unique()),
        "samples_misread": sum(each["unread"] for each in facts),
    }
    mlflow.log_metrics(figures)
    told = (
        f"{figures['counterexamples']:,} counterexamples around {figures['samples_with_counterexamples']:,} of "
        f"{samples:,} training samples; {figures['samples_misread']:,} were not searched around, for the classifier "
        "does not read their reconstruction."
    )
    if not table.num_rows:
        told += " That is a result: with such noise it has no failure near its training data. Wider: -P a=2 -P b=2."
    run.client.set_tag(run.run_id, "mlflow.note.content", told)
    say(told)
    if table.num_rows:
        run.client.log_figure(run.run_id, _figure(table, patient.names), "counterexamples.png")


def _figure(table: pa.Table, names: dict[int, str]) -> Figure:
    """Some of them, drawn evenly."""
    count = min(SHOWN_ROWS * PER_ROW, table.num_rows)
    chosen = table.take(np.linspace(0, table.num_rows - 1, count).astype(np.int64)).to_pylist()
    cells = [
        Cell(row["image"], f"{names[row['label']]} →", f"{names[row['prediction']]} {row['confidence']:.2f}", None)
        for row in chosen
    ]
    rows = [PictureRow("", cells[start : start + PER_ROW]) for start in range(0, len(cells), PER_ROW)]
    return picture_rows(
        rows, f"{count} of {table.num_rows:,} counterexamples", "source's class → what the classifier says"
    )
