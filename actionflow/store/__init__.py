"""How a table becomes Parquet in an MLflow run, and comes back. It knows nothing of models or SQL."""
