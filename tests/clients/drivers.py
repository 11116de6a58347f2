"""Python's drivers: PyMySQL, mysqlclient, mysql-connector (pure and with its C extension).

Arguments: host and port of a daemon that has the twelve requests of tests/it/mysql.rs. Fails by an assertion, or
prints "ok".
"""
import datetime
import sys

import MySQLdb
import mysql.connector
import pymysql

HOST, PORT = sys.argv[1], int(sys.argv[2])
DRIVERS = {
    "PyMySQL": lambda: pymysql.connect(host=HOST, port=PORT, user="anybody", database="pinba", charset="utf8mb4"),
    "mysqlclient": lambda: MySQLdb.connect(host=HOST, port=PORT, user="anybody", database="pinba", charset="utf8mb4"),
    "connector, pure": lambda: mysql.connector.connect(
        host=HOST, port=PORT, user="anybody", database="pinba", use_pure=True
    ),
    "connector, C": lambda: mysql.connector.connect(
        host=HOST, port=PORT, user="anybody", database="pinba", use_pure=False
    ),
}


def rows(cursor, text, values=None):
    cursor.execute(text, values)
    return [tuple(row) for row in cursor.fetchall()]


for name, connect in DRIVERS.items():
    try:
        connection = connect()
        cursor = connection.cursor()
        assert rows(cursor, "SELECT id, hostname, req_time, script_name FROM request WHERE id = %s", (7,)) == [
            (7, "web1", 0.875, "/каталог.php")
        ]
        assert rows(cursor, "SELECT count(*) FROM request WHERE script_name = %s", ("/каталог.php",)) == [(6,)]
        assert rows(
            cursor, "SELECT server_name, count(*) AS n FROM request WHERE req_time > %s GROUP BY server_name ORDER BY 1", (0.5,)
        ) == [("s1.example", 4), ("s1.example.org", 4)]
        assert rows(cursor, "SELECT NULL, 1, 'x'") == [(None, 1, "x")]
        (moment,) = rows(cursor, "SELECT FROM_UNIXTIME(timestamp) FROM request WHERE id = 1")[0]
        assert isinstance(moment, datetime.datetime), moment
        assert [column[0] for column in cursor.description] == ["FROM_UNIXTIME(timestamp)"]
        assert ("report_by_script_name",) in rows(cursor, "SHOW TABLES")
        connection.ping()
        connection.commit()
        connection.rollback()
        for text, code in [("SELECT * FROM nowhere", 1146), ("SELECT nothing FROM request", 1054), ("SELEC", 1064)]:
            try:
                rows(cursor, text)
            except Exception as error:
                assert error.args[0] == code or getattr(error, "errno", None) == code, (text, error)
            else:
                raise AssertionError(f"{text} is no error")
        assert rows(cursor, "SELECT count(*) FROM timer") == [(24,)]
        if name.startswith("connector"):
            cursor.close()
            assert "Uptime" in connection.cmd_statistics() or connection.cmd_statistics()
            assert connection.sql_mode is not None
            prepared = connection.cursor(prepared=True)
            for number, host in [(1, "web1"), (2, "web2"), (6, "web3")]:
                got = rows(prepared, "SELECT hostname, req_time FROM request WHERE id = %s", (number,))
                assert got == [(host, 0.125 * number)], got
            prepared.close()
            connection.cmd_reset_connection()
            connection.cmd_change_user("somebody", "", "pinba")
            cursor = connection.cursor()
            assert rows(cursor, "SELECT 1") == [(1,)]
        connection.close()
    except BaseException as error:
        print(f"{name}: {error!r}", file=sys.stderr)
        raise
print("ok")
