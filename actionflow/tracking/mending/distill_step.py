"""The third step: counterexamples grouped into failure scenarios, each with decoded samples that a person can label."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actionflow.analysis.scenarios import FEWEST, Scenarios, counted, distil, majority
from actionflow.labelling import scenarios_in, sheet, write_sheets
from actionflow.session import say
from actionflow.store import layout, parquet
from actionflow.store.finding import find_runs
from actionflow.store.writing import RunWriter
from actionflow.tracking.mending.chain import Chain, StepRun
from actionflow.tracking.mending.models import Patient, pair_of
from actionflow.training.data.png import png_images
from actionflow.training.mending import Pair
from actionflow.training.mending.settings import DistillStep

SHEETS = "sheets"


def distill(chain: Chain, step: DistillStep) -> str:
    """Group what was found; return the id of the step's run. That there is nothing to group is a result."""
    patient = Patient.of(chain.classifier, step.data_dir)
    identified = chain.needed("identify")
    # The very VAE whose codes these are: a newer one would decode them into something else.
    vae_run = identified.description()["vae_run"]
    pair = pair_of(find_runs([vae_run], chain.client)[0], patient, step)
    paths = identified.files_now(layout.COUNTEREXAMPLES)
    columns = ["counterexample", "label", "prediction", "code"]
    table = pa.concat_tables([parquet.read(path, columns) for path in paths])
    with chain.step("distill", step) as run:
        writer = RunWriter(run.run_id, run.client)
        writer.describe(
            {
                "class_names": list(patient.dataset.class_names),
                "tau": step.tau,
                "vae_run": vae_run,
                "identify_run": identified.run_id,
            }
        )
        if table.num_rows < FEWEST:
            _tell(run, f"{table.num_rows} counterexamples are too few to group: there is no scenario.", 0)
            return run.run_id
        codes = np.stack(table["code"].to_numpy())
        found = distil(codes, step.components, step.least_weight, step.most_codes, step.seed)
        writer.log_scenarios(
            chain.classifier.run_id, identified.run_id, _columns(found, table, pair, step), found.means
        )
        writer.sender.close()
        _log_pictures(run, patient)
        _tell(run, _told(found, table.num_rows), len(found))
        return run.run_id


def _columns(found: Scenarios, table: pa.Table, pair: Pair, step: DistillStep) -> dict[str, Any]:
    rows = [_row(found, number, table, pair, step) for number in range(len(found))]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    width = found.means.shape[1]
    return columns | {
        "weight": found.weights,
        "mean": pa.FixedSizeListArray.from_arrays(pa.array(found.means.ravel()), width),
        "covariance": pa.FixedSizeListArray.from_arrays(pa.array(found.covariances.ravel()), width * width),
    }


def _row(found: Scenarios, number: int, table: pa.Table, pair: Pair, step: DistillStep) -> dict[str, Any]:
    members = table.take(np.flatnonzero(found.members == number))
    # A component that no code is likeliest of is told by the code that is nearest to it.
    members = members if members.num_rows else table.take([_nearest(found, number, table)])
    labels, predictions = (members[name].to_numpy().astype(np.int64) for name in ("label", "prediction"))
    images = pair.decode(found.draw(number, step.samples, step.tau, np.random.default_rng([step.seed, number])))
    reading = pair.read(images)
    source_label, source_share = majority(labels)
    return {
        "scenario": number + 1,
        "size": int((found.members == number).sum()),
        "source_label": source_label,
        "source_share": source_share,
        "source_labels": counted(labels),
        "prediction": majority(predictions)[0],
        "predictions": counted(predictions),
        "counterexamples": members["counterexample"].to_pylist(),
        "sample_images": png_images(images),
        "sample_predictions": reading.predictions.tolist(),
        "sample_confidences": reading.confidences.tolist(),
    }


def _nearest(found: Scenarios, number: int, table: pa.Table) -> int:
    codes: NDArray[np.float32] = np.stack(table["code"].to_numpy())
    return int(np.square(codes - found.means[number]).sum(axis=1).argmin())


def _log_pictures(run: StepRun, patient: Patient) -> None:
    """The wall of all scenarios, and the sheets and the CSV for labelling without a page."""
    scenarios = scenarios_in(run.stored())
    run.client.log_figure(run.run_id, sheet(scenarios, patient.names), "scenarios.png")
    with TemporaryDirectory() as folder:
        write_sheets(Path(folder), scenarios, patient.names)
        run.client.log_artifacts(run.run_id, folder, SHEETS)


def _told(found: Scenarios, counterexamples: int) -> str:
    told = (
        f"{len(found)} scenarios of {counterexamples:,} counterexamples; {found.dropped} light components were dropped."
    )
    if found.fitted < counterexamples:
        told += f" The mixture was fitted to {found.fitted:,} of them."
    return told if found.converged else f"{told} The mixture had not converged after its last iteration."


def _tell(run: StepRun, told: str, scenarios: int) -> None:
    mlflow.log_metrics({"scenarios": scenarios})
    run.client.set_tag(run.run_id, "mlflow.note.content", told)
    say(told)
