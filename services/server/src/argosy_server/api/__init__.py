"""The API role: accepts, answers and shows; decides nothing."""
