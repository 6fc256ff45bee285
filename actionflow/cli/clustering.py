"""The verb that groups samples: curves."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out


@click.command()
@click.argument("run")
@click.option("-k", default=3, show_default=True, help="How many clusters.")
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@click.option("--closest", default=3, show_default=True, help="How many samples to show of each cluster.")
@click.option("--seed", default=0, show_default=True, help="Decides where k-means starts.")
@click.option("--log", "logged", is_flag=True, help="Write it into RUN too: clusters, figure, closest samples.")
@rows_out
@click.pass_obj
def curves(
    tracking_uri: str | None,
    run: str,
    k: int,
    split: str,
    closest: int,
    seed: int,
    logged: bool,
    form: str | None,
    output: str | None,
) -> None:
    """Group the samples of RUN by their loss curves: easy, medium and difficult ones.

    k-means over the loss of every sample in every epoch. A terminal shows each cluster's centre and the samples closest
    to it; csv, json and parquet have the cluster of every sample.

    Example:

    \b
        actionflow curves digits-seed-0
        actionflow curves digits-seed-0 -k 4 --split train --log --output clusters.csv
    """
    from actionflow.clustering import curves as group
    from actionflow.present import rows
    from actionflow.session import say

    found = group(run, k, split, closest, seed, tracking_uri)
    for note in found.notes():
        say(note)
    # Before the rows: a reader that has seen enough, such as head, ends us while they are written.
    if logged:
        say(f"Logged into run {found.log()}")
    rows.write(found.members, form, output, as_text=lambda _: found.text())
