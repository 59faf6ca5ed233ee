-- mart.indicators: every tracked indicator with its newest figure, the change on the one before, source and freshness.
-- grain: one indicator
-- key: indicator_id
-- depends: mart.indicator_readings
-- column indicator_id: S supply, D demand, T technology, P policy
-- column indicator_group: supply, demand, technology or policy
-- column name_en: name in English
-- column name_zh: name in Chinese
-- column status: ok, range only, text only or no source yet
-- column reason: why there is no figure, or why another than the first of the feed is shown; null otherwise
-- column reason_zh: the same in Chinese
-- column measure_en: what the figure is, in English
-- column measure_zh: what the figure is, in Chinese
-- column entity: company, market or group it is about
-- column value: the newest figure, in `unit`; null where only a range or a text is known
-- column value_low: low end of a range or band
-- column value_high: high end of a range or band
-- column value_text: what the figure says beyond its number: words that bound it, the newest or the largest item
-- column unit: unit of the figure
-- column period: period or day the figure is about
-- column period_end: last day of that period
-- column previous_value: the figure before, in `unit`; null where nothing comparable is known
-- column previous_period: period of the figure before
-- column change_ratio: change on it, 0.1 is plus ten percent [ratio]
-- column year_ago_value: the figure a year before, in `unit`
-- column year_change_ratio: change on the year before [ratio]
-- column source: source of the figure
-- column source_name: document or publisher
-- column source_url: link to it; several are separated by blanks
-- column certainty: how sure a figure from a non-primary source is
-- column known_at: when the figure became public
-- column as_of_date: day on which it was last compared with its source, else the day it became public
-- column stale_after_at: from then on something newer should exist, judged by the indicator's cadence and its source's
-- column cadence: how often something new can appear
-- column gap: which part of the indicator no public source covers
-- column feed: the entry that the figure comes from
-- column readings_count: entries of the feed
-- column readings_known: entries with a figure; all of them stand in mart.indicator_readings
-- column sources: sources that can feed it
with tracked as (
    from ref.indicators
    qualify row_number() over (partition by indicator_id order by known_at desc, source) = 1
),

headline as (
    from mart.indicator_readings
    where status <> 'no data'
    qualify row_number() over (partition by indicator_id order by position) = 1
),

counts as (
    select
        indicator_id,
        count(*) filter (position > 0) as readings_count,
        count(*) filter (position > 0 and status <> 'no data') as readings_known,
        arg_min(measure_en, position) as first_measure_en,
        arg_min(measure_zh, position) as first_measure_zh,
        string_agg(feed, ', ' order by position) as feeds
    from mart.indicator_readings
    group by indicator_id
),

patience(cadence, days) as (
    values ('daily', 7), ('weekly', 21), ('monthly', 45), ('quarterly', 120), ('twice a year', 240), ('events', 365)
)

select
    t.indicator_id,
    t.indicator_group,
    t.name_en,
    t.name_zh,
    coalesce(h.status, 'no source yet') as status,
    case
        when h.status is null and t.feed is null then coalesce(t.gap, 'no public source is known')
        when h.status is null then 'nothing has been read yet for ' || c.feeds
        when h.position > 1 then 'shown in place of ' || c.first_measure_en || ', which has no data yet'
    end as reason,
    case
        when h.status is null and t.feed is null then '尚无公开来源'
        when h.status is null then '尚未读入数据：' || c.feeds
        when h.position > 1 then '“' || c.first_measure_zh || '”尚无数据，此处为替代指标'
    end as reason_zh,
    h.measure_en,
    h.measure_zh,
    h.entity,
    h."value",
    h.value_low,
    h.value_high,
    h.value_text,
    h.unit,
    h.period,
    h.period_end,
    h.previous_value,
    h.previous_period,
    h.change_ratio,
    h.year_ago_value,
    h.year_change_ratio,
    h.source,
    h.source_name,
    h.source_url,
    h.certainty,
    h.known_at,
    h.as_of_date,
    greatest(s.stale_after_at, cast(h.as_of_date + p.days as timestamptz)) as stale_after_at,
    t.cadence,
    t.gap,
    h.feed,
    coalesce(c.readings_count, 0) as readings_count,
    coalesce(c.readings_known, 0) as readings_known,
    t.sources
from tracked as t
left join headline as h on t.indicator_id = h.indicator_id
left join counts as c on t.indicator_id = c.indicator_id
left join patience as p on t.cadence = p.cadence
left join ops.sources as s on h.source = s.source
