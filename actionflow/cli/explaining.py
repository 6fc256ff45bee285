"""The verb that explains failures: explain."""

from __future__ import annotations

import click

from actionflow.cli.output import rows_out


@click.command()
@click.argument("run")
@click.option("--class", "name", metavar="NAME", help="Only the rules of this class.")
@click.option("-k", default=10, show_default=True, help="How many rules a terminal shows.")
@click.option("--split", default="val", show_default=True, help="val, train or test.")
@click.option(
    "--grouping",
    default="label",
    show_default=True,
    metavar="label|prediction",
    help="When samples of a class are mistaken, or when others are taken for it.",
)
@click.option("--depth", default=1, show_default=True, help="How many steps a rule may have: 1, 2 or 3.")
@click.option(
    "--features",
    default="auto",
    show_default=True,
    metavar="robust|own|none|RUN",
    help="Of a robust model on the same data, the run's own, none, or those of another run.",
)
@click.option("--attributes", default="", metavar="COLUMNS", help="Columns of the samples, a,b; text reads texts.")
@click.option(
    "--target", default="error", show_default=True, metavar="error|action", help="What is explained: errors, or action."
)
@click.option("--high", default=0.2, show_default=True, help="The share of samples whose action is high.")
@click.option("--top", default=20, show_default=True, help="Features that tell most, which a tree is made of.")
@click.option("--delta", default=0.1, show_default=True, help="A rule has an error rate so far above its class's.")
@click.option("--tau", default=0.2, show_default=True, help="A rule covers more than this share of the errors.")
@click.option("--permutations", default=5, show_default=True, help="How often failures are shuffled, as a control.")
@click.option("--seed", default=0, show_default=True, help="Decides halves and shuffles.")
@click.option("--log", "logged", is_flag=True, help="Write it into RUN too: views, report, figures.")
@rows_out
@click.pass_obj
def explain(
    tracking_uri: str | None,
    run: str,
    name: str | None,
    k: int,
    split: str,
    grouping: str,
    depth: int,
    features: str,
    attributes: str,
    target: str,
    high: float,
    top: int,
    delta: float,
    tau: float,
    permutations: int,
    seed: int,
    logged: bool,
    form: str | None,
    output: str | None,
) -> None:
    """When does RUN fail? Short rules over what samples show, each with its error rate on samples it was not made of.

    A terminal shows the rules in words, the classes, and what chance gives; csv, json and parquet have every rule.

    Example:

    \b
        actionflow explain digits-seed-0 --features own
        actionflow explain digits-seed-0 --class 8 --depth 3
        actionflow explain digits-seed-0 --target action --split train --log
    """
    from actionflow.analysis.failure_modes import Terms
    from actionflow.explaining import explain as find_rules
    from actionflow.present import rows
    from actionflow.session import say

    terms = Terms(top=top, delta=delta, tau=tau, permutations=permutations, seed=seed)
    found = find_rules(run, split, grouping, depth, features, attributes, target, high, terms, tracking_uri)
    shown = found.of_class(name) if name else found
    # Before the rows: a reader that has seen enough, such as head, ends us while they are written.
    if logged:
        say(f"Logged into run {found.log()}")
    rows.write(shown.rules, form, output, as_text=lambda _: shown.text(k))
