"""How a training goes: data sets, models, one loop, its schedule. It knows nothing of MLflow or SQL."""
