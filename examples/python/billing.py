"""Billing: keeps invoices in SQLite, answers, and sends a receipt three seconds later."""

import os
import sqlite3
import threading
import time

import requests
from flask import Flask, request
from opentelemetry import trace

BUG = os.environ.get("BUG", "")
MAIL_URL = os.environ.get("MAIL_URL")  # ../java; without it, receipts are only written
RECEIPT_AFTER = 3  # seconds

app = Flask(__name__)
tracer = trace.get_tracer("billing")
# One database for all threads of this process; it is gone with the process.
database = sqlite3.connect("file:billing?mode=memory&cache=shared", uri=True, check_same_thread=False)
database.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, buyer TEXT)")
database.execute("CREATE TABLE lines (invoice INTEGER, item TEXT, price INTEGER)")
lock = threading.Lock()


@app.get("/healthz")
def health():
    return "ok"


@app.post("/invoices")
def create():
    order = request.get_json()
    with lock:
        cursor = database.cursor()
        cursor.execute("INSERT INTO invoices (buyer) VALUES (?)", (order["buyer"],))
        invoice = cursor.lastrowid
        lines = [(invoice, item, 450) for item in order["items"]]
        if BUG == "n-plus-one":
            for line in lines:
                cursor.execute("INSERT INTO lines VALUES (?, ?, ?)", line)
        else:
            cursor.executemany("INSERT INTO lines VALUES (?, ?, ?)", lines)
        database.commit()
    if BUG != "no-receipt":
        threading.Thread(target=send_receipt, args=(invoice, order["buyer"])).start()
    return {"invoice": invoice, "total": 450 * len(lines)}, 201


def send_receipt(invoice, buyer):
    with tracer.start_as_current_span("send receipt") as span:
        span.set_attribute("invoice.id", invoice)
        time.sleep(RECEIPT_AFTER)
        if MAIL_URL:
            requests.post(f"{MAIL_URL}/mails", data=buyer, timeout=5).raise_for_status()
