-- How far two runs agree among the hard samples: correlation of action above (or below) each quantile of run A's.
--
-- reads    scores (run_id, split, sample_id, action)
-- takes    $run_a       the id of run A, whose action gives the quantiles
--          $run_b       the id of the other
--          $split       which split; val
--          $quantiles   how many steps; 20 makes them 0, 0.05, … 0.95
--          $side        above, below or within; above
--          $least       the least number of samples that a correlation is told for; 10
-- returns  run_a, run_b, split, side, quantile, action_low, action_high, samples, left_out, not_finite, pearson,
--          pearson_low, pearson_high
--          one row per quantile, in order
--
-- above: the samples at or above the quantile q (0 is all of them); below: at or below it (1 is all of them); within: at
-- or above q and below the next quantile, the last bin closed. Quantiles are those of percentile_cont, and of numpy.
-- Only samples that both runs recorded count; those of one run alone are told in left_out, and pairs of which an action
-- is not finite in not_finite. low and high bound the 95 % interval of Fisher's z. NULL: fewer than $least samples, or no
-- spread to correlate.
--
-- One sort puts every pair into its bin; the sets are put together from the bins' means and covariances.

with pairs as (
    select
        case when abs(a.action) < cast('infinity' as double) and abs(b.action) < cast('infinity' as double)
            then a.action end as action_a,
        case when abs(a.action) < cast('infinity' as double) and abs(b.action) < cast('infinity' as double)
            then b.action end as action_b
    from scores as a
    inner join scores as b on a.sample_id = b.sample_id
    where a.run_id = $run_a and b.run_id = $run_b and a.split = $split and b.split = $split
),

-- Places count from 0. Of ties, the last counts for being at or above a quantile, the first for being at or below.
placed as (
    select
        action_a,
        action_b,
        case $side
            when 'above' then count(*) over (order by action_a nulls last) - 1
            when 'below' then rank() over (order by action_a nulls last) - 1
            when 'within' then count(*) over (order by action_a nulls last) - 1
            else assert_true(false, concat('the side is above, below or within, not ', $side))
        end as place,
        count(action_a) over () - 1 as last_place
    from pairs
),

binned as (
    select
        action_a,
        action_b,
        case
            when action_a is null then null
            when last_place = 0 then 0
            when $side = 'below' then cast(ceil(place * $quantiles / nullif(last_place, 0)) as int)
            when place = last_place then $quantiles - 1
            else cast(floor(place * $quantiles / nullif(last_place, 0)) as int)
        end as bin
    from placed
),

bins as (
    select
        bin,
        count(*) as samples,
        min(action_a) as action_low,
        max(action_a) as action_high,
        avg(action_a) as mean_a,
        avg(action_b) as mean_b,
        var_pop(action_a) as variance_a,
        var_pop(action_b) as variance_b,
        covar_pop(action_a, action_b) as covariance
    from binned
    group by bin
),

steps as (
    select case when $side = 'below' then step + 1 else step end as step
    from range(0, $quantiles) as numbers(step)
),

members as (
    select steps.step, bins.*
    from steps
    left join bins
        on ($side = 'above' and bins.bin >= steps.step)
        or ($side = 'below' and bins.bin <= steps.step)
        or ($side = 'within' and bins.bin = steps.step)
),

centres as (
    select
        step,
        sum(samples) as samples,
        sum(samples * mean_a) / sum(samples) as mean_a,
        sum(samples * mean_b) / sum(samples) as mean_b
    from members
    group by step
),

-- The spread of a set is that within its bins plus that of the bins about the set's centre: no digits are lost.
sets as (
    select
        members.step,
        coalesce(max(centres.samples), 0) as samples,
        min(members.action_low) as action_low,
        max(members.action_high) as action_high,
        sum(members.samples * (members.variance_a + power(members.mean_a - centres.mean_a, 2))) as spread_a,
        sum(members.samples * (members.variance_b + power(members.mean_b - centres.mean_b, 2))) as spread_b,
        sum(members.samples * (
            members.covariance + (members.mean_a - centres.mean_a) * (members.mean_b - centres.mean_b)
        )) as spread_ab
    from members
    inner join centres on members.step = centres.step
    group by members.step
),

correlations as (
    select *, case when samples >= $least then spread_ab / nullif(sqrt(spread_a) * sqrt(spread_b), 0) end as pearson
    from sets
),

-- Rounding may carry a correlation a last digit beyond 1, where z has no value.
bounded as (
    select
        step,
        action_low,
        action_high,
        samples,
        case when pearson > 1 then 1 when pearson < -1 then -1 else pearson end as pearson,
        case when samples > 3 then 1.959963984540054 / sqrt(samples - 3) end as reach
    from correlations
),

recorded as (
    select
        count(case when run_id = $run_a then 1 end) + count(case when run_id = $run_b then 1 end) as samples
    from scores
    where split = $split
),

paired as (
    select
        coalesce(sum(samples), 0) as samples,
        coalesce(sum(case when bin is null then samples end), 0) as not_finite
    from bins
)

select
    $run_a as run_a,
    $run_b as run_b,
    $split as split,
    $side as side,
    cast(bounded.step as double) / $quantiles as quantile,
    bounded.action_low,
    bounded.action_high,
    bounded.samples,
    recorded.samples - 2 * paired.samples as left_out,
    paired.not_finite,
    bounded.pearson,
    tanh(atanh(bounded.pearson) - bounded.reach) as pearson_low,
    tanh(atanh(bounded.pearson) + bounded.reach) as pearson_high
from bounded
cross join recorded
cross join paired
order by quantile
