"""ActionFlow inside the MLflow server: questions over HTTP, asked where strangers can do no harm, and pages on them."""
