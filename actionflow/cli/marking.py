"""The verb that exports marks."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out, write_rows
from actionflow.errors import StoreError, nearest


@click.command()
@click.option("--experiment", default="", metavar="NAME", help="Of this experiment only; by its name or id.")
@click.option("--history", is_flag=True, help="All that were ever made, not only the latest of each person.")
@rows_out
@click.pass_obj
def marks(tracking_uri: str | None, experiment: str, history: bool, form: str | None, output: str | None) -> None:
    """Write what people marked: mislabelled, ambiguous, unusable and fine samples, with who and when.

    Example:

    \b
        actionflow marks --output marks.parquet
        actionflow marks --experiment digits --history --format csv
    """
    import pyarrow as pa
    from mlflow import MlflowClient

    from actionflow.store.finding import all_experiments
    from actionflow.store.marks import marks_of

    client = MlflowClient(tracking_uri=tracking_uri)
    known = all_experiments(client)
    chosen = [each for each in known if experiment in ("", each.name, each.experiment_id)]
    if not chosen:
        raise StoreError(f"there is no experiment {experiment}. {nearest(experiment, [each.name for each in known])}")
    write_rows(pa.concat_tables([marks_of(client, each.experiment_id, history) for each in chosen]), form, output)
