"""Jobs in memory and in rows: columns by dense indices, keys and members."""
