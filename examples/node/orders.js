// Orders: reserves the goods at stock (../go), has billing (../python) write the invoice, and answers.
const express = require("express");

const BUG = process.env.BUG ?? "";
const STOCK_URL = process.env.STOCK_URL ?? "http://127.0.0.1:7003";
const BILLING_URL = process.env.BILLING_URL ?? "http://127.0.0.1:7002";

const app = express();
app.use(express.json());

app.get("/healthz", (request, response) => response.send("ok"));

app.post("/orders", async (request, response) => {
  const { buyer, items } = request.body;
  const reserved = await post(`${STOCK_URL}/reservations`, { items });
  if (reserved.status === 409) {
    return response.status(409).json({ error: "sold out" });
  }
  if (BUG === "no-invoice") {
    return response.status(201).json({ status: "ordered" });
  }
  const invoice = await post(`${BILLING_URL}/invoices`, { buyer, items });
  response.status(201).json({ status: "ordered", ...(await invoice.json()) });
});

function post(url, body) {
  const headers = { "content-type": "application/json" };
  return fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
}

app.listen(Number(process.env.PORT ?? 7001), "127.0.0.1");
