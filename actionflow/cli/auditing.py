"""The verb that looks for wrong labels: audit."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out


@click.command()
@click.argument("run")
@click.option("-k", default=20, show_default=True, help="How many samples a terminal shows.")
@click.option("--split", default="train", show_default=True, help="train, val or test.")
@click.option("--by", default="aum", show_default=True, help="The score: aum, confidence or action.")
@click.option(
    "--threshold",
    default="auto",
    show_default=True,
    metavar="mixture|samples|auto|SHARE",
    help="From distributions fitted to the score, or from the run's threshold samples, where it has them; or the share "
    "of labels that you expect to be wrong, such as 0.05 or 5%.",
)
@click.option("--log", "logged", is_flag=True, help="Write it into RUN too: table, figure, the view audits.")
@click.option(
    "--export",
    type=(click.Choice(["cleanlab"]), click.Path()),
    metavar="cleanlab FILE",
    help="Write labels and epoch-mean probabilities as cleanlab takes them, to a .npz or into a folder.",
)
@rows_out
@click.pass_obj
def audit(
    tracking_uri: str | None,
    run: str,
    k: int,
    split: str,
    by: str,
    threshold: str,
    logged: bool,
    export: tuple[str, str] | None,
    form: str | None,
    output: str | None,
) -> None:
    """Which labels of RUN are probably wrong, how many, and what the model would call them.

    A terminal shows what was found and the most suspicious samples; csv, json and parquet have every suspect.

    Example:

    \b
        actionflow audit digits-seed-0
        actionflow audit digits-seed-0 --log --output suspects.csv
        actionflow audit digits-seed-0 --export cleanlab train.npz
    """
    from actionflow.auditing import audit as look_at_labels
    from actionflow.auditing import export_cleanlab
    from actionflow.present import rows
    from actionflow.session import say

    if export:
        say(f"Wrote {export_cleanlab(run, split, export[1], tracking_uri)}: labels, pred_probs and sample_ids.")
        return
    found = look_at_labels(run, split, by, threshold, tracking_uri)
    # Before the rows: a reader that has seen enough, such as head, ends us while they are written.
    if logged:
        say(f"Logged into run {found.log()}")
    if not found.found.count and not rows.is_for_people(form, output):
        # Rows alone would say that all labels are right.
        say("\n".join(found.findings()))
    rows.write(found.only_suspects(), form, output, as_text=lambda _: found.text(k))
