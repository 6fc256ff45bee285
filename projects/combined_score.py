"""Do scores together find more wrong labels than one alone, on data that they were not chosen on?

    python -m projects.combined_score --studies <run id>,<run id>,<run id>

Takes the tables of samples that noise studies keep in their runs, and leaves one study's data out at a time.
"""

from __future__ import annotations

import sys

import click
import mlflow.artifacts
import pyarrow as pa
import pyarrow.parquet as pq

from actionflow.combining import combining_verdict, held_out, trainings
from actionflow.errors import ActionFlowError
from actionflow.present.rows import text_table
from actionflow.store.finding import find_runs
from projects.noise_study import SAMPLES


@click.command()
@click.option("--studies", required=True, help="Ids of runs of noise_study, with commas between them.")
@click.option("--folds", is_flag=True, help="Take in what needs trainings more: cleanlab out of fold.")
def main(studies: str, folds: bool) -> None:
    """Choose and fit on all studies but one, judge on that one; then say whether it won."""
    try:
        runs = find_runs(studies.split(","))
        judged = {f"{run.name} {run.run_id[:8]}": trainings(_samples(run.run_id), folds) for run in runs}
        table = held_out(judged)
    except ActionFlowError as error:
        sys.exit(f"Error: {error}")
    print(text_table(table))
    print("\n" + "\n".join(combining_verdict(table)))


def _samples(run_id: str) -> pa.Table:
    return pq.read_table(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=SAMPLES))


if __name__ == "__main__":
    main()
