-- How far two runs agree on which samples are hard: correlation of their action, overall and in each class.
--
-- reads    scores (run_id, split, sample_id, label, action), runs (run_id, dataset_digest),
--          samples (digest, label, label_name)
-- takes    $run_a   the id of one run
--          $run_b   the id of the other
--          $split   which split; val
-- returns  run_a, run_b, split, label, label_name, samples, left_out, not_finite, pearson, pearson_low, pearson_high,
--          spearman, spearman_low, spearman_high
--          one row for all samples (label NULL, label_name 'overall'), then one per class
--
-- Only samples that both runs recorded count; those of one run alone are told in left_out, and pairs of which an action
-- is not finite in not_finite. Ties share their mean rank, as in scipy.stats.spearmanr.
-- low and high bound the 95 % interval of Fisher's z, for Spearman with the standard error of Bonett and Wright. NULL:
-- no spread to correlate, or for the interval fewer than four samples.

with recorded_a as (
    select sample_id, label, action
    from scores
    where run_id = $run_a and split = $split
),

recorded_b as (
    select sample_id, label, action
    from scores
    where run_id = $run_b and split = $split
),

pairs as (
    select
        coalesce(a.label, b.label) as label,
        a.action as action_a,
        b.action as action_b,
        a.sample_id is not null and b.sample_id is not null as in_both,
        coalesce(
            abs(a.action) < cast('infinity' as double) and abs(b.action) < cast('infinity' as double), false
        ) as counts
    from recorded_a as a
    full outer join recorded_b as b on a.sample_id = b.sample_id
),

members as (
    select true as overall, cast(null as int) as label, action_a, action_b, in_both, counts
    from pairs
    union all
    select false as overall, label, action_a, action_b, in_both, counts
    from pairs
    where label is not null
),

-- A rank is twice the mean place of the ties: the first of their places plus the last.
ranks as (
    select
        overall,
        label,
        in_both,
        counts,
        case when counts then action_a end as action_a,
        case when counts then action_b end as action_b,
        case when counts then
            rank() over (partition by overall, label, counts order by action_a)
            + count(*) over (partition by overall, label, counts order by action_a)
        end as rank_a,
        case when counts then
            rank() over (partition by overall, label, counts order by action_b)
            + count(*) over (partition by overall, label, counts order by action_b)
        end as rank_b
    from members
),

correlations as (
    select
        overall,
        label,
        count(case when counts then 1 end) as samples,
        count(case when not in_both then 1 end) as left_out,
        count(case when in_both and not counts then 1 end) as not_finite,
        covar_pop(action_a, action_b) / nullif(stddev_pop(action_a) * stddev_pop(action_b), 0) as pearson,
        covar_pop(rank_a, rank_b) / nullif(stddev_pop(rank_a) * stddev_pop(rank_b), 0) as spearman
    from ranks
    group by overall, label
),

-- Rounding may carry a correlation a last digit beyond 1, where z has no value.
bounded as (
    select
        overall,
        label,
        samples,
        left_out,
        not_finite,
        case when pearson > 1 then 1 when pearson < -1 then -1 else pearson end as pearson,
        case when spearman > 1 then 1 when spearman < -1 then -1 else spearman end as spearman,
        case when samples > 3 then 1.959963984540054 / sqrt(samples - 3) end as reach
    from correlations
),

class_names as (
    select samples.label, max(samples.label_name) as label_name
    from samples
    inner join runs on samples.digest = runs.dataset_digest
    where runs.run_id = $run_a
    group by samples.label
)

select
    $run_a as run_a,
    $run_b as run_b,
    $split as split,
    bounded.label,
    case when bounded.overall then 'overall' else class_names.label_name end as label_name,
    bounded.samples,
    bounded.left_out,
    bounded.not_finite,
    bounded.pearson,
    tanh(atanh(bounded.pearson) - bounded.reach) as pearson_low,
    tanh(atanh(bounded.pearson) + bounded.reach) as pearson_high,
    bounded.spearman,
    tanh(atanh(bounded.spearman) - bounded.reach * sqrt(1 + bounded.spearman * bounded.spearman / 2)) as spearman_low,
    tanh(atanh(bounded.spearman) + bounded.reach * sqrt(1 + bounded.spearman * bounded.spearman / 2)) as spearman_high
from bounded
left join class_names on bounded.label = class_names.label
order by bounded.overall desc, bounded.label
