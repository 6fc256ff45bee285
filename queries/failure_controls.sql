-- How far to trust explained failures: in how many classes a rule holds on unseen samples, and what chance gives.
--
-- reads    failure_modes (run_id, split, target, grouping, depth, label, leaf, gain, fitted_gain, found, holds,
--          chance_gain, chance_valid, beaten, reason)
-- takes    $split   which split; val
-- returns  run_id, split, target, grouping, depth, classes, explained, found, holds, by_chance, fitted_gain, gain,
--          chance_gain, beaten
--          one row per run, grouping and depth
--
-- found, holds and by_chance are shares of the explained classes: those with a leaf of ER > BER + delta and EC > tau on
-- the half it was fitted on (what the original reports), with one that has both on the other half too, and with such a
-- one when failures are shuffled. gain is ALER - BER, the mean over the classes.

with of_classes as (
    select
        run_id,
        split,
        target,
        grouping,
        depth,
        label,
        max(case when leaf is null then null when found then 1.0 else 0.0 end) as found,
        max(case when leaf is null then null when found and holds then 1.0 else 0.0 end) as holds,
        max(chance_valid) as by_chance,
        max(fitted_gain) as fitted_gain,
        max(gain) as gain,
        max(chance_gain) as chance_gain,
        max(beaten) as beaten
    from failure_modes
    where split = $split
    group by run_id, split, target, grouping, depth, label
)

select
    run_id,
    split,
    target,
    grouping,
    depth,
    count(*) as classes,
    count(found) as explained,
    avg(found) as found,
    avg(holds) as holds,
    avg(by_chance) as by_chance,
    avg(fitted_gain) as fitted_gain,
    avg(gain) as gain,
    avg(chance_gain) as chance_gain,
    avg(beaten) as beaten
from of_classes
group by run_id, split, target, grouping, depth
order by run_id, grouping, depth
