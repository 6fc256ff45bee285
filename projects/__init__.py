"""Trainings and demonstrations that `mlflow run` launches; each file reads top to bottom."""
