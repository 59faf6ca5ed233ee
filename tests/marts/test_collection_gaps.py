"""`mart.collection_gaps`: hours of which nothing was recorded."""

from __future__ import annotations

from marts.tables import at, database, mart, on


def hour(clock: int, **given) -> dict:
    row = {"hour_at": at(f"2026-03-02T{clock:02}:00:00"), "date": on("2026-03-02"), "gpu_uuid": "A", "sample_count": 60}
    return row | given


def gaps(*hours: dict, reasons: list[dict] | None = None) -> list[dict]:
    return mart(database(telemetry__gpu_hours=hours, telemetry__null_reasons=reasons or []), "collection_gaps")


def test_a_gap_has_its_hours_and_neighbours_are_none() -> None:
    (gap,) = gaps(hour(0), hour(1), hour(4), hour(5))
    assert (gap["from_at"], gap["to_at"]) == (at("2026-03-02T02:00:00"), at("2026-03-02T04:00:00"))
    assert (gap["missing_hours"], gap["reason"]) == (2, None)


def test_an_hour_that_an_interval_only_reaches_into_is_no_reading() -> None:
    (gap,) = gaps(hour(0), hour(1, sample_count=0), hour(2))
    assert gap["missing_hours"] == 1


def test_the_collectors_reason_for_the_gpu_or_its_node_is_told() -> None:
    why = {"table_name": "gpu_samples", "column_name": "*", "reason": "disk_full", "device": "*"}
    span = {"from_at": at("2026-03-02T01:30:00"), "to_at": at("2026-03-02T03:30:00")}
    other = why | span | {"reason": "lost", "device": "B"}
    (gap,) = gaps(hour(1), hour(3), reasons=[why | span, other])
    assert gap["reason"] == "disk_full"


def test_an_hour_in_which_minutes_are_missing_is_a_gap_of_those() -> None:
    full = {"seconds_covered": 3600.0}
    rows = [hour(0, seconds_covered=1800.0), hour(1, seconds_covered=2700.0), hour(2, **full), hour(3, **full)]
    (gap,) = gaps(*rows)  # the record begins in hour 0: nothing is missing there
    assert (gap["from_at"], gap["to_at"]) == (at("2026-03-02T01:00:00"), at("2026-03-02T02:00:00"))
    assert (gap["missing_hours"], gap["missing_seconds"]) == (0, 900.0)
    assert gaps(hour(0, **full), hour(1, seconds_covered=3541.0), hour(2, **full)) == []  # less than a minute
    assert gaps(hour(0), hour(1), hour(2)) == []  # readings minutes apart cover nothing


def test_quirk_30_a_gpu_that_vanished_while_the_others_go_on_is_missing_until_it_comes_back() -> None:
    def missing(*inventory: dict) -> list[tuple[object, ...]]:
        hours = [hour(0), hour(1), *(hour(clock, gpu_uuid="B") for clock in range(5))]
        tables = {"telemetry__gpu_hours": hours, "telemetry__inventory": inventory}
        rows = mart(database(**tables), "collection_gaps")
        return [(r["gpu_uuid"], r["from_at"], r["to_at"], r["missing_hours"]) for r in rows]

    board = {"valid_from": at("2026-03-01T00:00:00"), "gpu_uuid": "A"}
    assert missing(board, board | {"gpu_uuid": "B"}) == [("A", at("2026-03-02T02:00:00"), None, 3)]
    assert missing(board | {"valid_to": at("2026-03-02T02:00:00")}) == []  # taken out
