"""GPU rental prices: one small module a provider, one resolver, one way to build an offer.

Belongs here: fetching and reading price lists. Does not belong here: exchange to USD by the day's rate, daily
prices and the index (`assets/`).
"""
