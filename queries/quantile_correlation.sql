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
-- above: the samples at or above the quantile q (0 is all of them). below: at or below it (1 is all of them). within:
-- at or above q and below the next quantile, the last bin closed. Quantiles are those of percentile_cont, and of numpy.
-- Only samples that both runs recorded count; those of one run alone are told in left_out, and pairs of which an action
-- is not finite in not_finite. low and high bound the 95 % interval of Fisher's z.
-- NULL: fewer than $least samples, no spread to correlate, or for the interval fewer than four samples.
--
-- A million pairs need no sort: a grid over A's action counts them, and only cells that a quantile crosses are sorted.
-- Every set is then put together from means and covariances of pieces, which keeps the digits that plain sums lose.

with pairs as (
    select
        a.action as action_a,
        b.action as action_b,
        abs(a.action) < cast('infinity' as double) and abs(b.action) < cast('infinity' as double) as finite
    from scores as a
    inner join scores as b on a.sample_id = b.sample_id
    where a.run_id = $run_a and b.run_id = $run_b and a.split = $split and b.split = $split
),

span as (
    select
        min(case when finite then action_a end) as lowest,
        max(case when finite then action_a end) as highest,
        count(case when finite then 1 end) as finite,
        count(*) as pairs
    from pairs
),

-- Cells are narrower where action is low: there the samples crowd.
gridded as (
    select
        pairs.action_a,
        pairs.action_b,
        coalesce(cast(floor(4096 * sqrt(sqrt(
            (pairs.action_a - span.lowest) / nullif(span.highest - span.lowest, 0)
        ))) as int), 0) as cell
    from pairs
    cross join span
    where pairs.finite
),

cells as (
    select
        cell,
        count(*) as samples,
        min(action_a) as action_low,
        max(action_a) as action_high,
        avg(action_a) as mean_a,
        avg(action_b) as mean_b,
        var_pop(action_a) as variance_a,
        var_pop(action_b) as variance_b,
        covar_pop(action_a, action_b) as covariance
    from gridded
    group by cell
),

-- A spot is a sample's place in the order of A's action, as a number of quantiles: the least has 0, the largest all.
cell_spots as (
    select
        cells.*,
        sum(cells.samples) over (order by cells.cell) - cells.samples as before,
        coalesce(
            (sum(cells.samples) over (order by cells.cell) - cells.samples) * $quantiles / nullif(span.finite - 1, 0), 0
        ) as first_spot,
        coalesce(
            (sum(cells.samples) over (order by cells.cell) - 1) * $quantiles / nullif(span.finite - 1, 0), 0
        ) as last_spot
    from cells
    cross join span
),

-- Of ties, the last counts for being at or above a quantile, the first for being at or below.
crossed as (
    select
        gridded.action_a,
        gridded.action_b,
        (cell_spots.before - 1 + case $side
            when 'above' then count(*) over (partition by gridded.cell order by gridded.action_a)
            when 'within' then count(*) over (partition by gridded.cell order by gridded.action_a)
            when 'below' then rank() over (partition by gridded.cell order by gridded.action_a)
        end) * $quantiles / nullif(span.finite - 1, 0) as spot
    from gridded
    inner join cell_spots on gridded.cell = cell_spots.cell
    cross join span
    where
        floor(cell_spots.first_spot) <> floor(cell_spots.last_spot)
        or ceil(cell_spots.first_spot) <> ceil(cell_spots.last_spot)
),

pieces as (
    select first_spot as spot, samples, action_low, action_high, mean_a, mean_b, variance_a, variance_b, covariance
    from cell_spots
    where floor(first_spot) = floor(last_spot) and ceil(first_spot) = ceil(last_spot)
    union all
    select
        min(spot),
        count(*),
        min(action_a),
        max(action_a),
        avg(action_a),
        avg(action_b),
        var_pop(action_a),
        var_pop(action_b),
        covar_pop(action_a, action_b)
    from crossed
    group by floor(spot), ceil(spot)
),

steps as (
    select
        case $side
            when 'above' then number
            when 'within' then number
            when 'below' then number + 1
            else assert_true(false, concat('the side is above, below or within, not ', $side))
        end as step
    from range(0, $quantiles) as numbers(number)
),

members as (
    select steps.step, pieces.*
    from steps
    left join pieces
        on ($side = 'above' and pieces.spot >= steps.step)
        or ($side = 'below' and pieces.spot <= steps.step)
        or (
            $side = 'within'
            and pieces.spot >= steps.step
            and (pieces.spot < steps.step + 1 or steps.step = $quantiles - 1)
        )
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

-- The spread of a set is that within its pieces plus that of the pieces about the set's centre.
sets as (
    select
        members.step,
        cast(coalesce(max(centres.samples), 0) as bigint) as samples,
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
    select count(case when run_id = $run_a then 1 end) + count(case when run_id = $run_b then 1 end) as samples
    from scores
    where split = $split
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
    recorded.samples - 2 * span.pairs as left_out,
    span.pairs - span.finite as not_finite,
    bounded.pearson,
    tanh(atanh(bounded.pearson) - bounded.reach) as pearson_low,
    tanh(atanh(bounded.pearson) + bounded.reach) as pearson_high
from bounded
cross join recorded
cross join span
order by quantile
