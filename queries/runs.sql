-- List the runs: what was trained, on what, for how long, and how well.
--
-- reads    runs (run_id, name, status, start_time, dataset, model, seed, epochs, val_accuracy)
-- returns  run_id, name, status, start_time, dataset, model, seed, epochs, val_accuracy
--          one row per run, newest first

select run_id, name, status, start_time, dataset, model, seed, epochs, val_accuracy
from runs
order by start_time desc, run_id
