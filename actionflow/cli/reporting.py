"""The verb that shows a run: report."""

from __future__ import annotations

import click


@click.command()
@click.argument("run")
@click.option("--split", help="val, train or test.  [default: val, or what the run recorded]")
@click.option("--output", metavar="FILE", help="Write the page to a file instead of into RUN.")
@click.pass_obj
def report(tracking_uri: str | None, run: str, split: str | None, output: str | None) -> None:
    """Show what RUN found hard: a page, pictures and a note in the run, where MLflow's own pages show them.

    action_report.html is one file with every sample as a point, loss curves, classes, the hardest and the easiest, and
    the SQL behind each figure. A run that trained here has one already; this renews it.

    Example:

    \b
        actionflow report digits-seed-0
        actionflow report digits-seed-0 --split train --output report.html
    """
    from pathlib import Path

    from actionflow.errors import StoreError
    from actionflow.reporting import report as make
    from actionflow.session import say

    made = make(run, split, tracking_uri)
    for note in made.notes():
        say(note)
    if output is None:
        say(f"Logged into run {made.log()}")
        return
    try:
        Path(output).write_text(made.html(), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror}. Name a file in a folder that is there.") from error
    say(f"Wrote {output}")
