"""A simulated language model with the chat protocol that fails sometimes: python3 server.py [PORT]

The prompt selects the failure: "crowded" gets one 429 with Retry-After, "flaky" two errors, "outage" three errors,
which is more than the example retries, and "forbidden" a final error.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = {}    # requests per prompt
lock = threading.Lock()


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        with lock:
            seen[prompt] = times = seen.get(prompt, 0) + 1
        if "forbidden" in prompt:
            return self.refuse(400, f"the prompt {prompt!r} is against the rules")
        if "crowded" in prompt and times == 1:
            return self.refuse(429, "too many requests", {"Retry-After": "1"})
        if "flaky" in prompt and times <= 2:
            return self.refuse(500, f"worker {times} went away")
        if "outage" in prompt and times <= 3:
            return self.refuse(503, f"no capacity since {times} calls")
        answer = f"You said: {prompt}"
        message = {"role": "assistant", "content": answer}
        return self.answer(200, {"model": request["model"], "choices": [{"message": message}]})

    def refuse(self, status, message, headers=None):
        return self.answer(status, {"error": {"message": message}}, headers)

    def answer(self, status, body, headers=None):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9124
    server = ThreadingHTTPServer(("127.0.0.1", port), Model)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
