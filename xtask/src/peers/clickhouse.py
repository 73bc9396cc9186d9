"""ClickHouse's engine behind an HTTP interface like its own: `python3 clickhouse.py FOLDER PORT`.

The engine is that of the server, as a library (chDB). It runs one query at a time.
"""

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

# The errors that the server answers with 404: unknown tables and databases.
MISSING = {60, 81}
ENGINE = session.Session(sys.argv[1])
TURN = threading.Lock()


class Interface(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        given = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        query = "\n".join(part for part in (given.get("query"), body) if part)
        parameters = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
        try:
            with TURN:
                answer = ENGINE.query(query, "TabSeparated", params=parameters).bytes() or b""
            status = 200
        except Exception as error:
            code = re.match(r"Code: (\d+)", str(error))
            status = 404 if code and int(code[1]) in MISSING else 400
            answer = str(error).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Interface).serve_forever()
