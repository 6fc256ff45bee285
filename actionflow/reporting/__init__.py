"""Reports: what the queries say of a run, or of runs side by side, as things that people look at in MLflow's pages."""

from actionflow.reporting.run_report import Report, log_report, report, shown_split

__all__ = ["Report", "log_report", "report", "shown_split"]
