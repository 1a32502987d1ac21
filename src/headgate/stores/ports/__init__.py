"""What every store must do, one file for each noun. No optional method.

All times and all expiry are judged by the store's own clock. Every method may raise StoreUnavailable. Methods that
change something that is held raise NotOwner when it belongs to another principal than the acting one (calls/actor.py).
"""
