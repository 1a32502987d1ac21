"""The contract of every store, one file for each noun. No optional method.

All times and expiries are judged by the store's own clock. Every method may raise StoreUnavailable. Methods that change
a held thing raise NotOwner when it belongs to another principal than the acting one (calls/actor.py).
"""
