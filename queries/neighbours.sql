-- The samples nearest to one sample, or to the hardest, in feature space: what the model thinks is alike.
--
-- reads    features (run_id, split, sample_id, feature), scores (run_id, split, sample_id, label, prediction, action)
-- takes    $sample_id   the sample whose neighbours are sought; -1 takes the hardest of each run
--          $hardest     how many of the hardest, where no sample is named; 5
--          $split       which split; val
--          $metric      euclidean or cosine; euclidean
--          $k           how many neighbours of each; 10
-- returns  run_id, split, sample_id, neighbour_rank, neighbour_id, distance, label, prediction, action, origin_rank,
--          origin_label, origin_prediction, origin_action
--          at most k rows per run and origin, nearest first; origin_rank 1 is the hardest of the samples asked about
--
-- label, prediction and action are the neighbour's, those with origin_ are those of the sample itself. Cosine distance
-- is 1 - cosine. Ties go by sample_id; an action that is not a number is the hardest. A run without features gives no
-- rows.
-- Spark knows the two distances by other names; there, say once:
--     create temporary function list_distance(a array<float>, b array<float>) returns double
--         return vector_l2_distance(a, b)
--     create temporary function list_cosine_distance(a array<float>, b array<float>) returns double
--         return 1 - vector_cosine_similarity(a, b)

with ranked_scores as (
    select run_id, sample_id, row_number() over (partition by run_id order by action desc, sample_id) as origin_rank
    from scores
    where $sample_id = -1 and split = $split and action is not null
),

chosen as (
    select run_id, sample_id, origin_rank
    from ranked_scores
    where origin_rank <= $hardest
    union all
    select run_id, sample_id, 1 as origin_rank
    from features
    where $sample_id <> -1 and split = $split and sample_id = $sample_id
),

origins as (
    select chosen.run_id, chosen.sample_id, chosen.origin_rank, features.feature
    from features
    inner join chosen on features.run_id = chosen.run_id and features.sample_id = chosen.sample_id
    where features.split = $split
),

distances as (
    select
        features.run_id,
        origins.sample_id,
        origins.origin_rank,
        features.sample_id as neighbour_id,
        cast(case $metric
            when 'euclidean' then list_distance(features.feature, origins.feature)
            when 'cosine' then list_cosine_distance(features.feature, origins.feature)
            else assert_true(false, concat('the metric is euclidean or cosine, not ', $metric))
        end as double) as distance
    from features
    inner join origins on features.run_id = origins.run_id
    where features.split = $split and features.sample_id <> origins.sample_id
),

ranked as (
    select *, row_number() over (partition by run_id, sample_id order by distance, neighbour_id) as neighbour_rank
    from distances
),

nearest as (
    select run_id, sample_id, origin_rank, neighbour_rank, neighbour_id, distance
    from ranked
    where neighbour_rank <= $k
)

select
    nearest.run_id,
    $split as split,
    nearest.sample_id,
    nearest.neighbour_rank,
    nearest.neighbour_id,
    nearest.distance,
    scores.label,
    scores.prediction,
    scores.action,
    nearest.origin_rank,
    origin_scores.label as origin_label,
    origin_scores.prediction as origin_prediction,
    origin_scores.action as origin_action
from nearest
left join scores
    on nearest.run_id = scores.run_id and nearest.neighbour_id = scores.sample_id and scores.split = $split
left join scores as origin_scores
    on nearest.run_id = origin_scores.run_id
    and nearest.sample_id = origin_scores.sample_id
    and origin_scores.split = $split
order by nearest.run_id, nearest.origin_rank, nearest.neighbour_rank
