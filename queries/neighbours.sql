-- The samples nearest to one sample in feature space, with their distances: what the model thinks is alike.
--
-- reads    features (run_id, split, sample_id, feature), scores (run_id, split, sample_id, label, prediction, action)
-- takes    $sample_id   the sample whose neighbours are sought
--          $split       which split; val
--          $metric      euclidean or cosine; euclidean
--          $k           how many neighbours in each run; 10
-- returns  run_id, split, sample_id, neighbour_rank, neighbour_id, distance, label, prediction, action
--          at most k rows per run, nearest first
--
-- Cosine distance is 1 - cosine. Ties go by sample_id. A run without features gives no rows.
-- Spark knows the two distances by other names; there, say once:
--     create temporary function list_distance(a array<float>, b array<float>) returns double
--         return vector_l2_distance(a, b)
--     create temporary function list_cosine_distance(a array<float>, b array<float>) returns double
--         return 1 - vector_cosine_similarity(a, b)

with origins as (
    select run_id, sample_id, feature
    from features
    where split = $split and sample_id = $sample_id
),

distances as (
    select
        features.run_id,
        origins.sample_id,
        features.sample_id as neighbour_id,
        cast(case $metric
            when 'euclidean' then list_distance(features.feature, origins.feature)
            when 'cosine' then list_cosine_distance(features.feature, origins.feature)
            else assert_true(false, concat('the metric is euclidean or cosine, not ', $metric))
        end as double) as distance
    from features
    inner join origins on features.run_id = origins.run_id
    where features.split = $split and features.sample_id <> $sample_id
),

ranked as (
    select *, row_number() over (partition by run_id order by distance, neighbour_id) as neighbour_rank
    from distances
),

nearest as (
    select run_id, sample_id, neighbour_rank, neighbour_id, distance
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
    scores.action
from nearest
left join scores
    on nearest.run_id = scores.run_id and nearest.neighbour_id = scores.sample_id and scores.split = $split
order by nearest.run_id, nearest.neighbour_rank
