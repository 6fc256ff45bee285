"""The verb that orders: curriculum."""

from __future__ import annotations

import click


@click.command()
@click.argument("run")
@click.option("--order", default="easy-first", show_default=True, help="easy-first, hard-first or random.")
@click.option("--score", default="action", show_default=True, help="The score that says what is hard.")
@click.option("--fraction", default=1.0, show_default=True, help="Keep this share of the samples, from the first on.")
@click.option("--drop-hardest", default=0.0, show_default=True, help="Leave this share of the hardest out before.")
@click.option("--balanced", is_flag=True, help="Keep the classes' shares: order and cut each class by itself.")
@click.option("--stages", default=1, show_default=True, help="Divide it into stages; only within one is shuffled.")
@click.option("--seed", default=0, show_default=True, help="Decides the order of random, and of ties.")
@click.option(
    "--without-marked",
    default="",
    metavar="MARK,...",
    help="Leave out samples that somebody marked so: mislabelled, ambiguous, unusable, fine.",
)
@click.option("--name", default="", help="The file's name; else it says what was chosen.")
@click.pass_obj
def curriculum(
    tracking_uri: str | None,
    run: str,
    order: str,
    score: str,
    fraction: float,
    drop_hardest: float,
    balanced: bool,
    stages: int,
    seed: int,
    without_marked: str,
    name: str,
) -> None:
    """Order the training samples of RUN by a score, for retraining; print the address of the order.

    Runs queries/curriculum.sql and writes its rows into the run as actionflow/curriculum/NAME.parquet.

    Example:

    \b
        actionflow curriculum digits-seed-0 --order easy-first --fraction 0.5 --stages 4
        actionflow curriculum digits-seed-0 --without-marked mislabelled,unusable
    """
    from actionflow.ordering import plan
    from actionflow.session import connect, say

    with connect(run, tracking_uri=tracking_uri) as session:
        made = plan(
            session,
            run,
            order=order,
            score=score,
            fraction=fraction,
            drop_hardest=drop_hardest,
            balanced=balanced,
            stages=stages,
            seed=seed,
            name=name,
            without_marked=without_marked,
        )
        address = made.write()
        click.echo(address)
        say(f"Train on it: {made.command(address)}")
