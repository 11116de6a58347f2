"""ClickHouse's HTTP interface over chdb, the engine of ClickHouse in this process, with the faults that a network has.

    front.py FOLDER [PORT]  prints the port, and that of TLS where there is FOLDER/cert.pem; what FOLDER/fault says happens to the next
                            requests with rows, one word each: "lose" (500 after the rows are stored), "torn" (no answer after that),
                            "cut" (the connection ends before they are read), "refuse", "full", "readonly" (500 before: no memory, no
                            disk, a table that takes nothing), "slow" (half a second), "column" (as a server without that column);
                            "lose@rollup" waits for rows of that table
                            FOLDER/settings is added to the settings of inserts
                            FOLDER/fault-select says what happens to all questions while it is there: "refuse", "cut" (the connection
                            ends within the answer), "hang"
"""
import os, ssl, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from chdb.session import Session

folder = sys.argv[1]
engine = Session(os.path.join(folder, "engine"))
lock = threading.Lock()
count = 0


def fault(query):
    path = os.path.join(folder, "fault")
    try:
        words = open(path).read().split()
    except FileNotFoundError:
        return None
    if not words:
        return None
    word, _, table = words[0].partition("@")
    if f"INTO {table}" not in query:
        return None
    with open(path + ".new", "w") as rest:
        rest.write(" ".join(words[1:]))
    os.replace(path + ".new", path)
    return word


def settings():
    try:
        return ", " + open(os.path.join(folder, "settings")).read()
    except FileNotFoundError:
        return ""


def fault_select():
    try:
        return open(os.path.join(folder, "fault-select")).read()
    except FileNotFoundError:
        return None


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self):
        global count
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        query = asked.get("query", "")
        if os.path.exists(os.path.join(folder, "key")):
            key = open(os.path.join(folder, "key")).read()
            if self.headers.get("X-ClickHouse-Key") != key:
                self.body()
                return self.answer(403, b"Code: 516. DB::Exception: default: Authentication failed")
        if not query and "wait_end_of_query" in asked:
            return self.select(asked, self.body().decode())
        with lock:
            what = fault(query) if query.startswith("INSERT") else None
            if what == "slow":
                time.sleep(0.5)
            if what == "cut":
                self.rfile.read(10)
                self.close_connection = True
                self.connection.close()
                return
            body = self.body()
            if what == "refuse":
                return self.answer(500, b"Code: 241. DB::Exception: Memory limit exceeded")
            if what == "full":
                return self.answer(500, b"Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)")
            if what == "readonly":
                return self.answer(500, b"Code: 242. DB::Exception: Table is in readonly mode. (TABLE_IS_READ_ONLY)")
            if what == "column":
                return self.answer(500, b"Code: 16. DB::Exception: No such column part in table")
            database = asked.get("database")
            try:
                if not query.startswith("INSERT"):
                    # Tests live in a year that is past.
                    query = (query or body.decode()).replace("TTL toDate(ts) + 30\n", "")
                    if database:
                        engine.query(f"USE {database}")
                    said = engine.query(query, asked.get("default_format", "TabSeparated")).bytes()
                    return self.answer(200, said)
                count += 1
                path = os.path.join(folder, f"body-{count}.native.lz4")
                with open(path, "wb") as file:
                    file.write(body)
                into, columns = query.removesuffix(" FORMAT Native").split(" (", 1)
                table = into.split()[-1]
                token = asked["insert_deduplication_token"]
                engine.query(
                    f"INSERT INTO {database}.{table} ({columns} SELECT {columns[:-1]} FROM file('{path}', 'Native')"
                    f" SETTINGS insert_deduplication_token = '{token}'{settings()}"
                )
                os.remove(path)
            except Exception as error:
                text = str(error)
                return self.answer(500, text[text.find("Code:"):].encode())
            if what == "torn":
                self.close_connection = True
                self.connection.close()
                return
            if what == "lose":
                return self.answer(500, b"Code: 159. DB::Exception: Timeout exceeded")
            self.answer(200, b"")

    def select(self, asked, query):
        what = fault_select()
        if what == "refuse":
            return self.answer(500, b"Code: 241. DB::Exception: Memory limit exceeded")
        if what == "hang":
            time.sleep(4)
        with lock:
            try:
                engine.query(f"USE {asked.pop('database')}")
                form = asked.pop("default_format")
                for name, value in asked.items():
                    if name != "wait_end_of_query":
                        engine.query(f"SET {name} = {value}")
                said = engine.query(query, form).bytes()
            except Exception as error:
                text = str(error)
                return self.answer(500, text[text.find("Code:"):].encode())
        if what == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(said) + 100))
            self.end_headers()
            self.wfile.write(said)
            self.close_connection = True
            return
        self.answer(200, said)

    do_GET = do_POST


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Front)
ports = [server.server_address[1]]
certificate = os.path.join(folder, "cert.pem")
if os.path.exists(certificate):
    secure = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, os.path.join(folder, "key.pem"))
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    threading.Thread(target=secure.serve_forever, daemon=True).start()
    ports.append(secure.server_address[1])
print(*ports, flush=True)
server.serve_forever()
