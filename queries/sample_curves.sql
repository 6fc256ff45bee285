-- The loss curve of every sample of a run: its loss and what it was taken for, epoch by epoch.
--
-- reads    dynamics (run_id, split, epoch, sample_id, label, loss, prediction)
-- takes    $run_id   the id of the run
--          $split    which split; val
-- returns  sample_id, epoch, label, loss, prediction
--          one row per sample and epoch, in no order of their own
--
-- These are the curves that `actionflow curves` groups. label and prediction are NULL in a task without classes.

select sample_id, epoch, label, loss, prediction
from dynamics
where run_id = $run_id and split = $split
