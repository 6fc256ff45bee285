"""The verb that makes a paper's figures: paper-figures."""

from __future__ import annotations

import click


@click.command("paper-figures")
@click.argument("names", metavar="RUN...", nargs=-1)
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@click.option("--output", metavar="FOLDER", help="Write files into a folder instead of into an MLflow run.")
@click.option(
    "--format", "formats", type=click.Choice(["png", "pdf", "svg"]), multiple=True, help="Of figures; png, or several."
)
@click.pass_obj
def paper_figures(
    tracking_uri: str | None, names: tuple[str, ...], split: str, output: str | None, formats: tuple[str, ...]
) -> None:
    """Draw what the action-score papers draw of RUNs on one data set, with the tables behind it.

    Accuracy by action, variance and entropy; both against entropy; the easiest and the hardest of each class; the
    hardest with their neighbours; how far the runs agree, overall, in each class and among the hardest. All of it goes
    into one new MLflow run, or into a folder.

    Example:

    \b
        actionflow paper-figures digits-seed-0 digits-seed-1
        actionflow paper-figures digits-seed-0 digits-seed-1 --output figures --format pdf
    """
    from actionflow.publishing import FORMATS
    from actionflow.publishing import paper_figures as make
    from actionflow.session import say

    made = make(names, split, tracking_uri)
    for note in made.notes():
        say(note)
    wanted = formats or FORMATS[:1]
    if output is None:
        say(f"Logged as run {made.log(formats=wanted)}")
    else:
        say(f"Wrote {len(made.write(output, wanted))} files into {output}")
