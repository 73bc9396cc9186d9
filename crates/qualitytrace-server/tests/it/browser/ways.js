// Every way in which a web page can make its browser read or change something on the server at `base`.
//
// Returns for each way what the page got: the text of a successful response, or that something opened or loaded. An empty text is
// nothing. Ways that are true at the front work in a page of the server itself. Each request carries the name of its way in the
// parameter `way`, so that the test can see which of them reached the server. `foreign` is the base of another web server.
async (base, foreign, secret, token) => {
  const LIMIT = 60000;
  const json = { "content-type": "application/json" };
  const variables = (id) => JSON.stringify({ type: "VariableSet", spec: { id, name: id, values: [{ key: "K", value: "changed" }] } });
  const make = (tag, attributes, parent = document.body) => {
    const made = Object.assign(document.createElement(tag), attributes);
    parent.append(made);
    return made;
  };
  const text = async (response) => (response.ok ? `${response.status} ${await response.text()}` : "");
  const ask = (url, options) => fetch(url, options).then(text);
  const end = (target, good, bad, value = () => good) =>
    new Promise((resolve) => {
      target.addEventListener(good, () => resolve(value()));
      target.addEventListener(bad, () => resolve(""));
    });
  // What is shown counts only if it is what the server has to hide: a refusal may be seen.
  const inside = (shown) => {
    const seen = shown?.body?.innerText ?? "";
    return seen.includes(secret) ? seen : "";
  };
  const shown = (tag, attributes) => {
    const made = make(tag, attributes);
    return end(made, "load", "error", () => inside(made.contentDocument));
  };
  const request = (method, url, type, body) => {
    const asked = new XMLHttpRequest();
    asked.open(method, url);
    asked.withCredentials = true;
    if (type) asked.setRequestHeader("content-type", type);
    asked.send(body);
    return end(asked, "load", "error", () => (asked.status < 300 ? asked.responseText : ""));
  };
  const submit = async (way, url, attributes, fields) => {
    const frame = make("iframe", { name: way });
    const form = make("form", { action: url, method: "post", target: way, ...attributes });
    for (const [name, value] of fields) make("input", { type: "hidden", name, value }, form);
    const loaded = end(frame, "load", "error", () => inside(frame.contentDocument));
    form.submit();
    return loaded;
  };
  // A window of another origin cannot be looked into, which throws as soon as it has left `about:blank`.
  const watched = async (opened) => {
    try {
      while (opened.location.href === "about:blank" || opened.document.readyState !== "complete") {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return inside(opened.document);
    } finally {
      opened.close();
    }
  };
  const told = (way) =>
    new Promise((resolve) => addEventListener("message", ({ data }) => data.way === way && resolve(data.got)));
  const asking = (way, url) =>
    `<script>fetch(${JSON.stringify(url)}).then((got) => (got.ok ? got.text() : ""), () => "")` +
    `.then((got) => parent.postMessage({ way: ${JSON.stringify(way)}, got }, "*"))</script>`;
  const sent = () => "";

  const ways = {
    // Reading.
    fetch: [true, (to) => ask(to("/api/tests"))],
    fetch_with_cookies: [true, (to) => ask(to("/api/tests"), { credentials: "include" })],
    fetch_opaque: [false, (to) => ask(to("/api/tests"), { mode: "no-cors", credentials: "include" })],
    fetch_with_a_header: [true, (to) => ask(to("/api/tests"), { headers: { "x-any": "1" } })],
    fetch_with_a_guess: [false, (to) => ask(to("/api/tests"), { headers: { authorization: "Bearer a-guess-of-a-token" } })],
    fetch_token_in_the_address: [false, (to) => ask(to(`/api/tests?token=${token}&access_token=${token}`), { credentials: "omit" })],
    fetch_head: [true, (to) => ask(to("/api/tests"), { method: "HEAD" })],
    fetch_metrics: [true, (to) => ask(to("/metrics"))],
    fetch_audit: [true, (to) => ask(to("/api/audit"))],
    fetch_session: [true, (to) => ask(to("/api/session"), { credentials: "include" })],
    fetch_from_cache: [true, (to) => ask(to("/api/tests"), { cache: "force-cache" })],
    fetch_redirected: [false, (to) => ask(`${foreign}/redirect?status=302&to=${encodeURIComponent(to("/api/tests"))}`)],
    xhr: [true, (to) => request("GET", to("/api/tests"))],
    event_source_of_a_run: [true, (to) => {
      const source = new EventSource(to("/api/tests/t/run/1/events/stream"), { withCredentials: true });
      return end(source, "open", "error").finally(() => source.close());
    }],
    event_source_of_traces: [true, (to) => {
      const source = new EventSource(to("/api/traces/stream"), { withCredentials: true });
      return end(source, "open", "error").finally(() => source.close());
    }],
    web_socket: [true, (to) => {
      const socket = new WebSocket(to("/ws").replace("http:", "ws:"));
      return end(socket, "open", "error").finally(() => socket.close());
    }],
    image: [false, (to) => { const made = make("img", { src: to("/api/tests") }); return end(made, "load", "error"); }],
    script: [false, (to) => end(make("script", { src: to("/api/tests") }), "load", "error")],
    script_of_metrics: [false, (to) => end(make("script", { src: to("/metrics") }), "load", "error")],
    script_of_yaml: [false, (to) => end(make("script", { src: to("/api/variablesets/v/source") }), "load", "error")],
    script_module: [true, async (to) => JSON.stringify(await import(to("/api/tests"), { with: { type: "json" } }))],
    script_in_a_worker: [false, (to) => {
      const code = `try { importScripts(${JSON.stringify(to("/metrics"))}); postMessage("loaded") } catch { postMessage("") }`;
      const worker = new Worker(URL.createObjectURL(new Blob([code])));
      return new Promise((resolve) => worker.addEventListener("message", ({ data }) => resolve(data)));
    }],
    worker: [false, (to) => end(new Worker(to("/metrics")), "message", "error")],
    style_sheet: [false, (to) => end(make("link", { rel: "stylesheet", href: to("/metrics") }), "load", "error")],
    font: [false, (to) => new FontFace("f", `url(${to("/metrics")})`).load().then(() => "loaded")],
    frame: [true, (to) => shown("iframe", { src: to("/api/tests") })],
    object: [true, (to) => shown("object", { type: "text/html", data: to("/api/tests") })],
    window: [true, (to) => watched(open(to("/api/tests")))],
    prefetch: [false, (to) => end(make("link", { rel: "prefetch", href: to("/api/tests") }), "load", "error", sent)],
    preload: [false, (to) => end(make("link", { rel: "preload", as: "fetch", crossOrigin: "", href: to("/api/tests") }), "load", "error", sent)],
    sandbox: [false, (to, way) => { make("iframe", { sandbox: "allow-scripts", srcdoc: asking(way, to("/api/tests")) }); return told(way); }],
    data_address: [false, (to, way) => { make("iframe", { src: `data:text/html,${encodeURIComponent(asking(way, to("/api/tests")))}` }); return told(way); }],
    form_get: [true, (to, way) => submit(way, to("/api/tests"), { method: "get" }, [["way", way]])],

    // Changing.
    post_json: [true, (to) => ask(to("/api/variablesets"), { method: "POST", headers: json, body: variables("posted") })],
    put_json: [true, (to) => ask(to("/api/variablesets/v"), { method: "PUT", headers: json, body: variables("v"), credentials: "include" })],
    put_yaml: [true, (to) => ask(to("/api/variablesets/v"), { method: "PUT", headers: { "content-type": "text/yaml" }, body: variables("v") })],
    remove: [true, (to) => ask(to("/api/demos/d"), { method: "DELETE", credentials: "include" })],
    remove_by_override: [false, (to) => ask(to("/api/tests/t?_method=DELETE"), { method: "POST", mode: "no-cors", credentials: "include" })],
    post_plain: [false, (to) => ask(to("/api/variablesets"), { method: "POST", body: variables("plain"), credentials: "include" })],
    post_plain_opaque: [false, (to) => ask(to("/api/variablesets"), { method: "POST", mode: "no-cors", body: variables("opaque"), credentials: "include" })],
    post_without_a_type: [false, (to) => ask(to("/api/variablesets"), { method: "POST", mode: "no-cors", body: new Blob([variables("untyped")]), credentials: "include" })],
    post_form_data: [false, (to) => {
      const body = new FormData();
      body.set("spec", variables("data"));
      return ask(to("/api/variablesets"), { method: "POST", mode: "no-cors", body, credentials: "include" });
    }],
    post_redirected: [false, (to) => ask(`${foreign}/redirect?status=307&to=${encodeURIComponent(to("/api/variablesets"))}`, { method: "POST", mode: "no-cors", body: variables("redirected"), credentials: "include" })],
    xhr_post_json: [true, (to) => request("POST", to("/api/variablesets"), "application/json", variables("xhr"))],
    xhr_post_plain: [false, (to) => request("POST", to("/api/variablesets"), "text/plain", variables("xhr-plain"))],
    start_a_run: [true, (to) => ask(to("/api/tests/t/run"), { method: "POST", headers: json, body: "{}" })],
    start_a_run_without_a_body: [false, (to) => ask(to("/api/tests/t/run"), { method: "POST", mode: "no-cors", credentials: "include" })],
    rerun: [true, (to) => ask(to("/api/tests/t/run/1/rerun"), { method: "POST", credentials: "include" })],
    kept_alive: [false, (to) => ask(to("/api/tests/t/run"), { method: "POST", mode: "no-cors", keepalive: true, credentials: "include" })],
    beacon: [false, (to) => sent(navigator.sendBeacon(to("/api/variablesets"), variables("beacon")))],
    beacon_json: [false, (to) => sent(navigator.sendBeacon(to("/api/variablesets"), new Blob([variables("beacon-json")], { type: "application/json" })))],
    form: [false, (to, way) => submit(way, to("/api/variablesets"), {}, [["spec", variables("form")]])],
    form_multipart: [false, (to, way) => submit(way, to("/api/variablesets"), { enctype: "multipart/form-data" }, [["spec", variables("multipart")]])],
    form_plain: [false, (to, way) => submit(way, to("/api/variablesets"), { enctype: "text/plain" }, [[`${variables("form-plain").slice(0, -1)},"x":"`, '"}']])],
    form_to_start_a_run: [false, (to, way) => submit(way, to("/api/tests/t/run"), {}, [])],
    form_without_a_referrer: [false, (to, way) => submit(way, to("/api/tests/t/run/1/rerun"), { rel: "noreferrer", referrerPolicy: "no-referrer" }, [])],
    form_in_a_window: [false, async (to, way) => {
      const opened = open("about:blank", way);
      const form = make("form", { action: to("/api/tests/t/run"), method: "post", target: way });
      form.submit();
      return watched(opened);
    }],
    ping: [false, (to) => sent(make("a", { href: "#ping", ping: to("/api/tests/t/run") }).click())],
    report: [false, async (to) => shown("iframe", { src: `${foreign}/reports?to=${encodeURIComponent(to("/api/tests/t/run"))}` })],
  };
  // Each of these changes what the others are allowed to do.
  const sessions = {
    log_in: [true, (to) => ask(to("/api/session"), { method: "POST", headers: json, body: JSON.stringify({ token }), credentials: "include" })],
    log_in_plain: [false, (to) => ask(to("/api/session"), { method: "POST", mode: "no-cors", body: JSON.stringify({ token }), credentials: "include" })],
    log_in_by_form: [false, (to, way) => submit(way, to("/api/session"), { enctype: "text/plain" }, [[`{"token":"${token}","x":"`, '"}']])],
    log_out: [true, (to) => ask(to("/api/session"), { method: "DELETE", credentials: "include" })],
  };
  const tried = async ([way, [atHome, go]]) => {
    const to = (path) => `${base}${path}${path.includes("?") ? "&" : "?"}way=${way}`;
    const late = new Promise((_, reject) => setTimeout(reject, LIMIT, new Error(`${way} does not end`)));
    // Refused by the browser or by the server: either throws somewhere.
    const got = await Promise.race([late, Promise.resolve().then(() => go(to, way)).catch(() => "")]);
    return { way, atHome, got: String(got) };
  };
  const outcomes = await Promise.all(Object.entries(ways).map(tried));
  for (const way of Object.entries(sessions)) outcomes.push(await tried(way));
  return outcomes;
}
