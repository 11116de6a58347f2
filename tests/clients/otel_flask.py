"""A Flask application with sqlite3 that asks itself, under `opentelemetry-instrument`: python otel_flask.py REQUESTS

Prints "ok" once every page was read; spans leave when the program ends.
"""
import sqlite3
import sys
import threading
import urllib.error
import urllib.request

from flask import Flask
from werkzeug.serving import make_server

app = Flask("shop")


def database():
    return sqlite3.connect(":memory:")


@app.route("/items/<int:item>")
def show(item):
    cursor = database().cursor()
    cursor.execute("CREATE TABLE items (id INTEGER)")
    cursor.execute("INSERT INTO items VALUES (?)", (item,))
    cursor.execute("SELECT id FROM items")
    return str(cursor.fetchone()[0])


@app.route("/broken")
def broken():
    raise ValueError("no")


server = make_server("127.0.0.1", 0, app)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
for item in range(int(sys.argv[1])):
    with urllib.request.urlopen(f"{base}/items/{item}") as answer:
        assert answer.read() == str(item).encode()
try:
    urllib.request.urlopen(f"{base}/broken")
except urllib.error.HTTPError as error:
    assert error.code == 500
server.shutdown()
print("ok")
