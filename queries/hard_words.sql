-- Which words were hardest to write: the mean loss of each token over the targets of a split, in the last epoch.
--
-- reads    outputs (run_id, split, sample_id, tokens, token_losses)
-- takes    $split   which split; val
--          $least   fewer occurrences are passed over; 5
--          $k       how many tokens of each run; 20
-- returns  run_id, split, place, token, occurrences, samples, mean_loss, largest_loss
--          at most k rows per run, hardest first
--
-- A token is what the model's tokenizer made of the target, so a word may be several. Losses that are not finite are
-- left out. Only tasks that write text have tokens; others give no rows.

with places as (
    select outputs.run_id, outputs.sample_id, words.place, words.token
    from outputs
    cross join lateral unnest(outputs.tokens) with ordinality as words(token, place)
    where outputs.split = $split
),

losses as (
    select outputs.run_id, outputs.sample_id, lost.place, cast(lost.loss as double) as loss
    from outputs
    cross join lateral unnest(outputs.token_losses) with ordinality as lost(loss, place)
    where outputs.split = $split
),

words as (
    select
        places.run_id,
        places.token,
        count(*) as occurrences,
        count(distinct places.sample_id) as samples,
        avg(losses.loss) as mean_loss,
        max(losses.loss) as largest_loss
    from places
    inner join losses
        on places.run_id = losses.run_id and places.sample_id = losses.sample_id and places.place = losses.place
    where abs(losses.loss) < cast('infinity' as double)
    group by places.run_id, places.token
    having count(*) >= $least
),

ranked as (
    select *, row_number() over (partition by run_id order by mean_loss desc, token) as place
    from words
)

select run_id, $split as split, place, token, occurrences, samples, mean_loss, largest_loss
from ranked
where place <= $k
order by run_id, place
