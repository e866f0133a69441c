"""A server that stores tiles and fails sometimes: python3 server.py [PORT]

The first word of a tile selects the failure: "slow" gets one 429 with Retry-After, "lost" is stored but the
first response is lost, "torn" is always rejected. A tile whose Idempotency-Key is known is acknowledged again
and not stored twice.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = {}    # requests per key
kept = {}    # tiles by their key


class Tiles(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        seen[key] = seen.get(key, 0) + 1
        word = body.split(None, 1)[0] if body.strip() else b""
        if word == b"torn":
            return self.answer(422, b"the tile is torn")
        if word == b"slow" and seen[key] == 1:
            return self.answer(429, b"one moment", {"Retry-After": "1"})
        kept.setdefault(key, body)
        if word == b"lost" and seen[key] == 1:
            self.close_connection = True
            return None
        return self.answer(201, b"kept")

    def do_GET(self):
        self.answer(200, f"{len(kept)} tiles\n".encode())

    def answer(self, status, text, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9123
    server = ThreadingHTTPServer(("127.0.0.1", port), Tiles)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
