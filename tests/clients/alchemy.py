"""SQLAlchemy with three drivers, its reflection, and pandas. Arguments and result as in drivers.py."""
import sys

import pandas
import sqlalchemy
from sqlalchemy import MetaData, Table, func, inspect, select, text

HOST, PORT = sys.argv[1], sys.argv[2]
for driver in ["pymysql", "mysqldb", "mysqlconnector"]:
    try:
        engine = sqlalchemy.create_engine(f"mysql+{driver}://anybody@{HOST}:{PORT}/pinba?charset=utf8mb4")
        with engine.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM request WHERE status = :s"), {"s": 503}).scalar() == 3
            request = Table("request", MetaData(), autoload_with=connection)
            assert "req_time" in request.c and request.c.id.primary_key, list(request.c)
            query = (
                select(request.c.hostname, func.count().label("n"))
                .where(request.c.req_time > 0.25)
                .group_by(request.c.hostname)
                .order_by(request.c.hostname)
            )
            got = [tuple(row) for row in connection.execute(query)]
            assert got == [("web1", 3), ("web2", 3), ("web3", 4)], got
            connection.commit()
        names = inspect(engine).get_table_names()
        assert {"request", "timer", "tag", "timertag", "info", "report_by_script_name"} <= set(names), names
        assert inspect(engine).get_columns("report_by_script_name")[0]["name"] == "req_count"
        assert inspect(engine).has_table("request") and not inspect(engine).has_table("nowhere")
        frame = pandas.read_sql("SELECT id, req_time, script_name FROM request ORDER BY id", engine)
        assert list(frame.id) == list(range(1, 13)) and frame.req_time.sum() == 9.75, frame
        table = pandas.read_sql_table("report_by_script_name", engine)
        assert sorted(table.script_name) == ["/index.php", "/каталог.php"], table
        engine.dispose()
    except BaseException as error:
        print(f"{driver}: {error!r}", file=sys.stderr)
        raise
print("ok")
