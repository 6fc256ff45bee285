"""Questions in SQL: the files of `queries/`, and DuckDB to ask them with. It knows no models and no places of files."""
