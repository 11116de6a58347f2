"""What DuckDB, pandas and ClickHouse (`chdb`, where it is) read from the files of history: the folder is the first argument.
Prints JSON."""

import json
import sys

import duckdb
import pyarrow.dataset

try:
    import chdb
except ImportError:
    chdb = None

folder = sys.argv[1]
report = f"{folder}/rollup/report=report_by_script_name"
files = f"{report}/resolution=minute/*/*.parquet"
rows = duckdb.sql(
    f"""SELECT script_name, sum(req_count)::BIGINT, sum(req_time_total_us)::BIGINT, min(req_time_p50), max(req_time_p99),
               epoch(min(time))::BIGINT
        FROM read_parquet('{files}', hive_partitioning = true)
        WHERE report = 'report_by_script_name' AND resolution = 'minute' AND NOT other
        GROUP BY script_name ORDER BY script_name"""
).fetchall()

dataset = pyarrow.dataset.dataset(report, partitioning="hive")
frame = dataset.to_table(filter=pyarrow.dataset.field("resolution") == "minute").to_pandas()
sums = frame.groupby("script_name", observed=True)[["req_count", "req_time_total_us"]].sum().sort_index()
first = frame.groupby("script_name", observed=True)["time"].min().sort_index()

clickhouse = chdb and json.loads(
    str(
        chdb.query(
            f"""SELECT script_name, sum(req_count), sum(req_time_total_us), toUnixTimestamp(min(time))
                FROM file('{files}') WHERE NOT other GROUP BY script_name ORDER BY script_name
                SETTINGS output_format_json_quote_64bit_integers = 0""",
            "JSONCompact",
        )
    )
)

print(
    json.dumps(
        {
            "duckdb": rows,
            "clickhouse": clickhouse and clickhouse["data"],
            "pandas": [
                [script, int(row["req_count"]), int(row["req_time_total_us"]), int(first[script].timestamp())]
                for script, row in sums.iterrows()
            ],
        }
    )
)
