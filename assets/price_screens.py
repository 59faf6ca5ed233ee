"""Screens over time: which quotes stand, which are held back for a while, what is carried over an outage.

Belongs here: the recursion over days (what stands today depends on what was accepted before), for all series and
providers at once. Does not belong here: reading offers, levels. Screens flag and hold; nothing is deleted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from assets.price_method import METHOD, Method

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

# What a cell (series and provider) is on a day; NOTHING gives no row.
NOTHING, REAL, HELD, CARRIED, OUT, DELISTED, THIN = range(7)
WORDS = {1: "jump", 2: "jump_confirmed", 4: "book_history", 8: "feed_shift", 16: "delisted", 32: "thin_book"}
JUMP, CONFIRMED, BOOK, SHIFT, GONE, FEW_HOSTS = WORDS


@dataclass(frozen=True, slots=True)
class Quotes:
    """Quotes as a matrix of days by cells. `quoted` is NaN where nothing was seen; `thin` marks books too small."""

    days: Ints  # ordinals
    quoted: Floats
    thin: Flags
    series: Ints  # code of each cell's series
    calendar: Ints  # code of each cell's calendar: series that one level takes together share it
    source: Ints  # code of each cell's provider and kind: what one change of unit would hit
    is_book: Flags
    feed: Ints  # days x cells: list the quote was read from, -1 where none
    read: Flags  # days x feeds: the list was read that day


@dataclass(slots=True)
class Verdicts:
    """For each day and cell: its state, the price that stands, the day of that price, the screens that spoke."""

    state: npt.NDArray[np.int8]
    price: Floats
    real_day: Ints
    screens: npt.NDArray[np.int8]


@dataclass(slots=True)
class _Memory:
    """What each cell carries from day to day."""

    accepted: Floats
    accepted_day: Ints
    feed: Ints
    shift_day: Ints
    shift_from: Floats
    book: Floats  # last accepted prices of books, NaN where none yet
    books: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def screen(quotes: Quotes, method: Method = METHOD) -> Verdicts:
    """Walk over the days once. Prices in USD per GPU-hour; cost is days x cells, vectorised over cells."""
    days, cells = quotes.quoted.shape
    out = Verdicts(
        np.zeros((days, cells), dtype=np.int8),
        np.full((days, cells), np.nan),
        np.zeros((days, cells), dtype=np.int64),
        np.zeros((days, cells), dtype=np.int8),
    )
    books = np.flatnonzero(quotes.is_book)
    memory = _Memory(
        np.full(cells, np.nan),
        np.full(cells, -(10**6), dtype=np.int64),
        np.full(cells, -1, dtype=np.int64),
        np.full(cells, -1, dtype=np.int64),
        np.full(cells, np.nan),
        np.full((method.book_days, books.size), np.nan),
        books,
    )
    for index in range(days):
        _one_day(quotes, index, memory, out, method)
    return out


def _one_day(quotes: Quotes, index: int, memory: _Memory, out: Verdicts, method: Method) -> None:
    today, seen_price = int(quotes.days[index]), quotes.quoted[index]
    seen, thin = ~np.isnan(seen_price), quotes.thin[index]
    if not (seen.any() or thin.any()):
        return
    age = today - memory.accepted_day
    fresh = age <= method.carry_days
    with np.errstate(invalid="ignore", divide="ignore"):
        move = np.where(seen & fresh, np.log(seen_price / memory.accepted), 0.0)
    screens = np.zeros(seen.size, dtype=np.int8)

    jump = np.abs(move) > math.log(method.jump_ratio)
    confirmed = jump & (_peers(move, quotes.series, method) >= method.peers)
    screens[jump & ~confirmed] |= JUMP
    screens[confirmed] |= CONFIRMED
    doubted = jump & ~confirmed
    if memory.books.size:
        strange = _against_own_history(seen_price, memory, method) & fresh[memory.books]
        screens[memory.books[strange]] |= BOOK
        doubted[memory.books[strange]] = True
    held = doubted.copy()

    shifted = _common_factor(move, seen & fresh, quotes.source, method)
    new_shift = shifted & (memory.shift_day < 0)
    memory.shift_day[new_shift], memory.shift_from[new_shift] = today, memory.accepted[new_shift]
    shut = seen & _still_shifted(seen_price, today, memory, method)
    memory.shift_day[seen & ~shut] = -1
    screens[shut] |= SHIFT
    held = (held | shut) & fresh

    left_out = shut & ~fresh
    accepted = seen & ~held & ~left_out
    # A price that outlived its doubt starts a new history, so that a true move is doubted once only.
    _remember(seen_price, today, accepted, ~fresh, quotes.feed[index], memory)

    has_fixing = np.zeros(int(quotes.calendar.max()) + 1, dtype=bool)
    has_fixing[quotes.calendar[seen]] = True
    missing = ~seen & fresh & has_fixing[quotes.calendar]
    gone = missing & ~thin & (memory.feed >= 0) & quotes.read[index][memory.feed]
    carried = missing & ~gone
    screens[gone] |= GONE
    screens[thin] |= FEW_HOSTS
    state = out.state[index]
    state[thin] = THIN
    state[accepted], state[held], state[left_out] = REAL, HELD, OUT
    state[carried], state[gone] = CARRIED, DELISTED
    stands = accepted | held | carried
    out.price[index, stands] = memory.accepted[stands]
    out.real_day[index] = memory.accepted_day
    out.screens[index] = screens
    memory.accepted_day[gone] = -(10**6)


def _peers(move: Floats, series: Ints, method: Method) -> Ints:
    """How many other providers of the series moved the same way by more than the peer ratio that day."""
    edge, groups = math.log(method.peer_ratio), int(series.max()) + 1
    up = np.bincount(series, weights=move > edge, minlength=groups)[series]
    down = np.bincount(series, weights=move < -edge, minlength=groups)[series]
    return np.where(move > 0, up - (move > edge), down - (move < -edge)).astype(np.int64)


def _against_own_history(seen_price: Floats, memory: _Memory, method: Method) -> Flags:
    """Hampel's rule on each book: further from the median of its last days than three scaled MADs."""
    known = ~np.isnan(memory.book)
    enough: Flags = known.sum(axis=0) >= method.book_min_days
    if not enough.any():
        return enough
    history = np.where(enough, memory.book, 0.0)
    middle = np.nanmedian(history, axis=0)
    mad = np.nanmedian(np.abs(history - middle), axis=0)
    limit = method.book_sigmas * np.maximum(1.4826 * mad, method.book_floor * middle)
    with np.errstate(invalid="ignore"):
        strange: Flags = enough & (np.abs(seen_price[memory.books] - middle) > limit)
    return strange


def _common_factor(move: Floats, comparable: Flags, source: Ints, method: Method) -> Flags:
    """Cells of one source whose series moved by one large factor together: its feed changed unit, not price."""
    found = np.zeros(move.size, dtype=bool)
    for name in np.unique(source[np.abs(move) > math.log(method.shift_ratio)]):
        mine = np.flatnonzero((source == name) & comparable)
        if mine.size < method.shift_min_series:
            continue
        moves = move[mine]
        agree = np.abs(moves[:, None] - moves[None, :]) <= method.shift_tolerance
        agree &= np.abs(moves)[:, None] > math.log(method.shift_ratio)
        size = agree.sum(axis=1)
        best = int(size.argmax())
        if size[best] > method.shift_share * mine.size:
            found[mine[agree[best]]] = True
    return found


def _still_shifted(seen_price: Floats, today: int, memory: _Memory, method: Method) -> Flags:
    """Shifted cells that have not come back near the price before the shift, for at most `shift_days`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        away: Flags = np.abs(np.log(seen_price / memory.shift_from)) > math.log(method.jump_ratio)
    still: Flags = (memory.shift_day >= 0) & away & (today - memory.shift_day < method.shift_days)
    return still


def _remember(seen_price: Floats, today: int, accepted: Flags, anew: Flags, feed: Ints, memory: _Memory) -> None:
    memory.accepted[accepted] = seen_price[accepted]
    memory.accepted_day[accepted] = today
    memory.feed[accepted] = feed[accepted]
    if memory.books.size:
        mine = accepted[memory.books]
        memory.book[:, mine & anew[memory.books]] = np.nan
        rolled = np.roll(memory.book, -1, axis=0)
        rolled[-1] = seen_price[memory.books]
        memory.book = np.where(mine, rolled, memory.book)
