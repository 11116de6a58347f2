"""Reads the files of history with DuckDB, again and again until its input ends: the folder is the first argument. Prints a line of
JSON for each time: the requests in the files of minutes, and in those of hours."""

import json
import select
import sys

import duckdb

report = f"{sys.argv[1]}/rollup/report=report_by_script_name"


def total(resolution):
    files = f"{report}/resolution={resolution}/*/*.parquet"
    try:
        rows = duckdb.sql(f"SELECT sum(req_count)::BIGINT FROM read_parquet('{files}')").fetchall()
    except duckdb.IOException as error:
        # Before the first is published.
        if "No files found" in str(error):
            return 0
        raise
    return rows[0][0]


while not select.select([sys.stdin], [], [], 0.01)[0]:
    print(json.dumps([total("minute"), total("hour")]), flush=True)
