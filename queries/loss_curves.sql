-- How loss and accuracy went, epoch by epoch: the learning curves of each run and split, or of each class.
--
-- reads    dynamics (run_id, split, epoch, label, loss, correct, confidence)
-- takes    $split      which split, or all; all
--          $by_class   1 for a curve of each class, 0 for one of all; 0
-- returns  run_id, split, label, epoch, samples, mean_loss, loss_deviation, largest_loss, accuracy,
--          mean_confidence, not_finite
--          one row per run, split, epoch (and class); label is NULL in a curve of all
--
-- Losses that are not finite are counted in not_finite and make the mean of their epoch NaN or infinite: a curve that
-- breaks off is a training that broke. The deviation is of the population.

with seen as (
    select
        run_id,
        split,
        case when cast($by_class as boolean) then label end as label,
        epoch,
        loss,
        correct,
        confidence
    from dynamics
    where $split in (split, 'all')
)

select
    run_id,
    split,
    label,
    epoch,
    count(*) as samples,
    avg(loss) as mean_loss,
    stddev_pop(loss) as loss_deviation,
    max(loss) as largest_loss,
    avg(cast(correct as int)) as accuracy,
    avg(confidence) as mean_confidence,
    count(case when not abs(loss) < cast('infinity' as double) then 1 end) as not_finite
from seen
group by run_id, split, label, epoch
order by run_id, split, label nulls first, epoch
