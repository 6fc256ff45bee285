"""How long does it take to open 100 and 1,000 local runs, and how much memory? How long is a small question?

The runs are real ones in a store of their own, of few samples, since opening looks at no sample. `import mlflow` is
paid before the clock starts; `--help` is the whole command, from typing to the last byte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import made_up
from measuring import MEGABYTE, Target, end, in_own_process, is_quick, memory_now, peak_memory, seconds, show

from actionflow.store import layout, schema
from actionflow.store.writing import RunWriter

ROUNDS = 5
QUESTION = "select count(*) from scores"


def main() -> None:
    quick = is_quick(__doc__)
    few, many = (5, 20) if quick else (100, 1000)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["ACTIONFLOW_HOME"] = f"{folder}/home"
        record_runs(Path(folder), "few", few, samples=50)
        record_runs(Path(folder), "many", many - few, samples=50)
        record_runs(Path(folder), "one", 1, samples=10_000)
        opened = {
            few: in_own_process(open_runs, "few"),
            many: in_own_process(open_runs, None),
        }
        asking = median(in_own_process(ask_small) for _ in range(3))
        helping = median(seconds(lambda: actionflow("--help")) for _ in range(ROUNDS))
    rows = [[f"{count} runs", connect, ask, memory / MEGABYTE] for count, (connect, ask, memory) in opened.items()]
    show("Opening runs", ["", "connect, s", f"first `{QUESTION}`, s", "MB beyond importing"], rows)
    show(
        "Small questions",
        ["", "seconds"],
        [["the hardest of 10,000 samples", asking], ["actionflow --help, whole command", helping]],
    )
    targets = [
        Target(f"connect and ask {few} runs, s", sum(opened[few][:2]), 1),
        Target(f"connect and ask {many} runs, s", sum(opened[many][:2]), 5),
        Target(f"memory of {few} runs, MB", opened[few][2] / MEGABYTE, 300),
        Target("a small question, s beyond start-up", asking, 0.1),
        Target("actionflow --help, s", helping, 0.3),
    ]
    end(targets, quick)


def record_runs(folder: Path, experiment: str, count: int, samples: int) -> None:
    """Finished runs as a training leaves them: tags, parameters, metrics, two epochs and scores."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    from actionflow.session import compute_scores
    from actionflow.store.reading import StoredRun

    client = MlflowClient()
    experiment_id = client.create_experiment(experiment, artifact_location=(folder / experiment).as_uri())
    for number in range(count):
        run = client.create_run(experiment_id, run_name=f"{experiment}-{number}")
        run_id = run.info.run_id
        client.log_batch(
            run_id,
            metrics=[Metric(f"val/metric_{n}", n, 0, 0) for n in range(20)],
            params=[Param(f"param_{n}", str(n)) for n in range(20)],
            tags=[RunTag(layout.TAG_KIND, "training"), RunTag(layout.TAG_MODEL, "keras_cnn")],
        )
        writer = RunWriter(run_id, client)
        for epoch in range(2):
            table = made_up.dynamics(epoch, samples).drop_columns(["run_id"])
            writer.log_epoch([table.set_column(0, "split", schema.constant("val", samples))])
        writer.log_scores("val", compute_scores([StoredRun(run, client).recorded()]))
        writer.sender.close()
        client.set_terminated(run_id)


def open_runs(experiment: str | None) -> tuple[float, float, int]:
    """Seconds to connect, seconds of a first question, and bytes beyond what the imports hold."""
    import mlflow

    import actionflow
    from actionflow import session  # noqa: F401

    mlflow.MlflowClient().search_experiments()
    before = memory_now()
    started = perf_counter()
    opened = actionflow.connect(experiment or ())
    connected = perf_counter()
    opened.sql(QUESTION)
    return connected - started, perf_counter() - connected, peak_memory() - before


def ask_small() -> float:
    """A question about a run of 10,000 samples in a process that has started and connected once."""
    import actionflow

    actionflow.query("hardest", runs="one-0")
    return min(seconds(lambda: actionflow.query("hardest", runs="one-0")) for _ in range(ROUNDS))


def actionflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "actionflow.cli", *words], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
