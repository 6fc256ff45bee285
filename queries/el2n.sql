-- The samples of each run with the largest error early in training: EL2N, the norm of (softmax - one-hot).
--
-- reads    dynamics (run_id, split, epoch, sample_id, label, el2n)
-- takes    $split         which split; val
--          $el2n_epochs   how many of the first epochs are averaged; 10
--          $k             how many samples of each run; 10
-- returns  run_id, split, el2n_rank, sample_id, label, epochs_seen, el2n
--          at most k rows per run, largest first
--
-- The norm, not its square. The column el2n of scores is the same at 10 epochs; this file is for other numbers.
-- Ties go by sample_id.

with collected as (
    select
        run_id,
        split,
        sample_id,
        max(label) as label,
        count(el2n) as epochs_seen,
        avg(el2n) as el2n
    from dynamics
    where split = $split and epoch < $el2n_epochs and el2n is not null
    group by run_id, split, sample_id
),

ranked as (
    select *, row_number() over (partition by run_id order by el2n desc, sample_id) as el2n_rank
    from collected
)

select run_id, split, el2n_rank, sample_id, label, epochs_seen, el2n
from ranked
where el2n_rank <= $k
order by run_id, el2n_rank
